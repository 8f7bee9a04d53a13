// Asserts that a list of problems is empty, and prints the problems otherwise.

const SHOWN = 60;

export function none(problems, what) {
  const unique = [...new Set(problems)];
  if (unique.length === 0) return;
  const lines = unique.slice(0, SHOWN).map((problem) => `  - ${problem}`);
  if (unique.length > SHOWN) lines.push(`  … and ${unique.length - SHOWN} more`);
  const error = new Error(`${what}:\n${lines.join('\n')}`);
  // The stack trace adds nothing to the name of the test.
  error.stack = error.message;
  throw error;
}
