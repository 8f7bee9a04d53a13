// Live updates, keyboard shortcuts and relative times. Every page works without this script.
'use strict';

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

/* Relative times, as the server writes them */
function age(iso) {
  const seconds = Math.trunc((new Date(iso) - Date.now()) / 1000);
  const n = Math.abs(seconds);
  if (n === 0) return 'now';
  const [count, unit] = n < 60 ? [n, 's'] : n < 3600 ? [Math.trunc(n / 60), 'min'] : n < 86400 ? [Math.trunc(n / 3600), 'h'] : [Math.trunc(n / 86400), n < 172800 ? 'day' : 'days'];
  return seconds > 0 ? `in ${count} ${unit}` : `${count} ${unit} ago`;
}
function refreshTimes(root = document) {
  for (const time of all('time', root)) {
    const text = age(time.dateTime);
    if (time.textContent !== text) time.textContent = text;
  }
}
refreshTimes();
setInterval(refreshTimes, 20000);

/* Presses: a browser sends a click only if its element stays in the page from press to release */
let presses = 0;
let isPressed = false;
const waiting = [];
for (const name of ['pointerdown', 'keydown']) {
  addEventListener(name, () => {
    presses += 1;
    isPressed = true;
  });
}
// A menu, or another window, may keep the release to itself.
for (const name of ['pointerup', 'pointercancel', 'keyup', 'contextmenu', 'blur']) {
  addEventListener(name, () => {
    const before = presses;
    // The click follows these events.
    setTimeout(() => {
      if (presses !== before) return;
      isPressed = false;
      for (const go of waiting.splice(0)) go();
    });
  });
}
const released = () => new Promise((go) => (isPressed ? waiting.push(go) : go()));

/* Live lists */
const live = one('[data-live]');
const says = document.createElement('p');
says.className = 'unseen';
says.setAttribute('role', 'status');
document.body.append(says);

const linksIn = (root) => all('[data-row] .open', root).map((link) => link.getAttribute('href'));

async function refreshList() {
  const target = one('[data-live]');
  const response = await fetch(location.href, { headers: { accept: 'text/html' } });
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const fresh = one('[data-live]', page);
  if (!fresh || !target) return;
  target.setAttribute('aria-busy', 'true');
  await released();
  target.removeAttribute('aria-busy');
  // A selection or a focused element must survive.
  const focused = target.contains(document.activeElement) ? document.activeElement : null;
  const row = focused?.closest('[data-row]');
  const href = row && one('.open', row).getAttribute('href');
  const kind = focused && (focused.matches('.open') ? '.open' : focused.tagName.toLowerCase());
  const picked = new Set(all('input[name=id]:checked', target).map((box) => box.value));
  const before = new Set(linksIn(target));
  target.replaceChildren(...fresh.childNodes);
  for (const box of all('input[name=id]', target)) box.checked = picked.has(box.value);
  showSelectAll();
  showCount();
  refreshTimes(target);
  for (const part of ['.top nav', '.bar']) {
    const counts = one(part, page);
    if (counts) one(part).replaceChildren(...counts.childNodes);
  }
  if (href) {
    const again = all('[data-row]', target).find((it) => one('.open', it).getAttribute('href') === href);
    (again && one(kind, again))?.focus();
  }
  const added = linksIn(target).filter((link) => !before.has(link)).length;
  if (added > 0) says.textContent = added === 1 ? 'One new submission' : `${added} new submissions`;
}

if (live && window.EventSource) {
  let source;
  let pending = Promise.resolve();
  // Rows do not move under the finger of a reader who has scrolled: the list is updated at its top.
  let isLate = false;
  const update = () => {
    isLate = scrollY > 300;
    if (!isLate) pending = pending.then(refreshList).catch(() => {});
  };
  addEventListener('scroll', () => isLate && scrollY <= 300 && update(), { passive: true });
  const open = () => {
    source = new EventSource('/events');
    // A stream that opens, for the first time or again, does not report the changes before.
    for (const name of ['open', 'changed']) source.addEventListener(name, update);
  };
  // Hidden pages have no stream: browsers open at most six connections to a server.
  document.addEventListener('visibilitychange', () => (document.hidden ? source?.close() : open()));
  addEventListener('pagehide', () => source?.close());
  addEventListener('pageshow', (event) => event.persisted && open());
  if (!document.hidden) open();
}

/* The test of a channel: its page shows the result after a while */
if (one('[data-reload]')) setTimeout(() => location.reload(), 3000);

/* A search that ran out of time goes on by itself */
async function continueSearch() {
  const target = one('[data-live]');
  for (let rounds = 0; rounds < 60; rounds += 1) {
    const link = one('[data-continue]', target);
    if (!link || all('[data-row]', target).length >= 50) return;
    says.textContent = 'Searching older submissions';
    const response = await fetch(link.href, { headers: { accept: 'text/html' } });
    if (!response.ok) return;
    const fresh = one('[data-live]', new DOMParser().parseFromString(await response.text(), 'text/html'));
    if (!fresh) return;
    one('.earlier', fresh)?.remove();
    // Rows join those that are shown; everything else is newer on the page that was read last.
    const lists = all('.rows', target);
    if (lists.length && one('.rows', fresh)) {
      for (const row of all('[data-row]', fresh)) lists.at(-1).append(row);
      const more = one('.more', fresh);
      one('.more', target).replaceWith(...(more ? [more] : []));
    } else if (lists.length) {
      const more = one('.more', fresh);
      one('.more', target).replaceWith(...(more ? [more] : []));
    } else {
      target.replaceChildren(...fresh.childNodes);
    }
    refreshTimes(target);
    showSelectAll();
  }
}
if (one('[data-continue]')) continueSearch().catch(() => {});

/* Selections */
function showSelectAll() {
  const button = one('[data-select-all]');
  if (button) button.hidden = false;
}
showSelectAll();
function selectAll() {
  const boxes = all('input[name=id]');
  const select = boxes.some((box) => !box.checked);
  for (const box of boxes) box.checked = select;
  showCount();
}
document.addEventListener('click', (event) => event.target.closest?.('[data-select-all]') && selectAll());
function showCount() {
  const count = all('input[name=id]:checked').length;
  const shown = one('[data-count]');
  if (shown) shown.textContent = count ? `${count} selected` : '';
}
document.addEventListener('change', showCount);

/* The address of a page without the result of the last change, which going back would show again */
if (/[?&]notice=/.test(location.search)) {
  const url = new URL(location.href);
  for (const name of ['notice', 'count', 'undo', 'tested']) url.searchParams.delete(name);
  history.replaceState(history.state, '', url);
}

/* Back to the list from which a submission was opened, also after a change that ends the work on it */
const from = document.referrer.startsWith(`${location.origin}/`) ? new URL(document.referrer) : null;
const back = one('.back a');
if (back && from && ['/', '/review'].includes(from.pathname)) {
  sessionStorage.setItem('frontdesk-list', from.pathname + from.search);
}
const list = back && sessionStorage.getItem('frontdesk-list');
if (list) back.setAttribute('href', list);
document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!list || !form.matches('.actions') || !['done', 'spam', 'hold'].includes(event.submitter?.value)) return;
  const view = document.createElement('input');
  Object.assign(view, { type: 'hidden', name: 'view', value: list.startsWith('/review') ? '/?status=held' : list });
  form.append(view);
});

/* Replies: notes the click on the link to the mail program, which may leave this page */
document.addEventListener('click', (event) => {
  const link = event.target.closest?.('[data-reply]');
  const form = link?.closest('form');
  if (!form) return;
  const body = new URLSearchParams({ form_token: form.elements.form_token.value, action: 'replied' });
  // The buttons of the form are named `action`, too.
  fetch(form.getAttribute('action'), { method: 'POST', body, keepalive: true })
    .then((response) => {
      if (response.ok) one('[data-reply-noted]').hidden = false;
    })
    .catch(() => {});
});

/* Keyboard shortcuts, which can be switched off (WCAG 2.1.4) */
const KEY = 'frontdesk-inbox-keys';
const dialog = one('#keys');
const stored = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};
let isOn = stored() !== 'off';

if (dialog) {
  const button = one('[data-keys-open]');
  const box = one('[data-keys-on]');
  button.hidden = false;
  button.addEventListener('click', () => dialog.showModal());
  box.checked = isOn;
  box.addEventListener('change', () => {
    isOn = box.checked;
    try {
      localStorage.setItem(KEY, isOn ? 'on' : 'off');
    } catch {
      // Without storage, the choice lasts until the next page.
    }
  });
}

/* After a change, the list goes on at the row that followed */
const PLACE = 'frontdesk-row';
document.addEventListener('submit', () => {
  const rows = all('[data-row]');
  const at = rows.indexOf(document.activeElement?.closest('[data-row]') ?? one('[data-row]:has(input:checked)'));
  if (at >= 0) sessionStorage.setItem(PLACE, `${at} ${scrollY}`);
});
const place = sessionStorage.getItem(PLACE);
if (place && one('[data-row]') && one('.notice')) {
  const [at, y] = place.split(' ').map(Number);
  const links = all('[data-row] .open');
  scrollTo(0, y);
  links[Math.min(at, links.length - 1)]?.focus({ preventScroll: true });
}
sessionStorage.removeItem(PLACE);

function move(by) {
  const links = all('[data-row] .open');
  const now = document.activeElement?.closest('[data-row]');
  const at = now ? links.indexOf(one('.open', now)) : -1;
  const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(Math.max(at + by, 0), links.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: 'nearest' });
}

function press(key) {
  const row = document.activeElement?.closest('[data-row]');
  const box = row && one('input[name=id]', row);
  let bulk = one(`[data-bulk="${key}"]`);
  // Without a selection, the key is for the row. `e` has a button there.
  if (bulk && !one('input[name=id]:checked')) {
    if (box && !one(`[data-key="${key}"]`, row)) box.checked = true;
    else bulk = null;
  }
  if (bulk) return bulk.click();
  const target = (row && one(`[data-key="${key}"]`, row)) ?? all(`[data-key="${key}"]`).find((it) => !it.closest('[data-row]'));
  if (target?.matches('textarea')) target.focus();
  else target?.click();
}

document.addEventListener('keydown', (event) => {
  if (!dialog || dialog.open || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.matches('input:not([type=checkbox]), textarea, select, [contenteditable]')) return;
  if (!isOn) return;
  const row = document.activeElement?.closest('[data-row]');
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    '/': () => one('#q')?.focus(),
    '?': () => dialog.showModal(),
    x: () => row && one('input[name=id]', row)?.click(),
    X: selectAll,
  };
  const act = Object.hasOwn(keys, event.key) ? keys[event.key] : 'aehrnusz'.includes(event.key) && event.key.length === 1 ? () => press(event.key) : null;
  if (!act) return;
  event.preventDefault();
  act();
});
