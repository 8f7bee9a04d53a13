// Applies the stored choice of theme before the page is painted. Not deferred.
"use strict";

try {
  const theme = localStorage.getItem("theme");
  if (/^(light|dark)$/.test(theme)) document.documentElement.dataset.theme = theme;
} catch {} // storage may be blocked
