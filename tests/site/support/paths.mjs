// Paths of the binary, the site and the tools. TEST_BINARY, TEST_SITE and TEST_TOOLS override them.
// (FRONTDESK_… variables are settings of the server.)
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..');
const target = resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');

export const binary = resolve(root, process.env.TEST_BINARY ?? join(target, 'release/frontdesk'));
export const site = resolve(root, process.env.TEST_SITE ?? 'site');
export const tools = resolve(root, process.env.TEST_TOOLS ?? join(target, 'test-tools'));
export const python = join(tools, 'python/bin/python');
export const output = join(target, 'site-checks');
export const screenshots = join(target, 'screenshots');
export const schemas = join(root, 'tests/site/schema');

// The npm packages are installed in the build folder, not in the source tree.
export const packages = createRequire(join(tools, 'node/'));
