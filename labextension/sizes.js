/* Fails when what people download has grown too large. Sizes are those of gzip, in kB. */

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const BUILT = '../jupyter_jax_trainer';
const MOST = {
  'widget/static/job.js': 30,
  'widget/static/panel.js': 120,
  'labextension/static': 300
};

/** Return the size of a file, or of all files of a folder. */
async function size(path) {
  const names = path.endsWith('.js') ? [path] : (await readdir(path)).map(name => join(path, name));
  const files = await Promise.all(names.map(name => readFile(name)));
  return files.reduce((sum, file) => sum + gzipSync(file).length, 0) / 1000;
}

for (const [path, most] of Object.entries(MOST)) {
  const found = await size(join(BUILT, path));
  console.log(`${path}: ${found.toFixed(1)} kB of ${most}`);
  if (found > most) {
    process.exitCode = 1;
    console.error(`${path} is too large`);
  }
}
