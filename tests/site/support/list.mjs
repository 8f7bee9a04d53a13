// Asserting that a list of problems is empty, with the problems readable where it is not.

const SHOWN = 60;

export function none(problems, what) {
  const unique = [...new Set(problems)];
  if (unique.length === 0) return;
  const lines = unique.slice(0, SHOWN).map((problem) => `  - ${problem}`);
  if (unique.length > SHOWN) lines.push(`  … and ${unique.length - SHOWN} more`);
  const error = new Error(`${what}:\n${lines.join('\n')}`);
  // Where it was thrown says nothing that the name of the test doesn't.
  error.stack = error.message;
  throw error;
}
