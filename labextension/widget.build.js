/* Builds the widgets: one module each, since a widget is loaded from a single text. Beside them lie the licences of
   what they have from others, in the form that JupyterLab's builder gives those of the extension. */

import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { rolldown } from 'rolldown';

const OUT = '../jupyter_jax_trainer/widget/static';

const WIDGETS = {
  job: ['base', 'jobs', 'logcolours', 'output', 'widget'],
  panel: [...['base', 'jobs', 'job', 'picker', 'plots', 'log', 'logcolours', 'output'], 'widget']
};

/** Return what is told of a package of node_modules, with the text of its licence. */
async function licence(folder) {
  const { name, version, license } = JSON.parse(
    await readFile(join(folder, 'package.json'), 'utf8')
  );
  const file = (await readdir(folder)).find(name => /^licen[cs]e(\.|$)/i.test(name));
  if (!license || !file) {
    throw new Error(`${folder} does not say its licence`);
  }
  const extractedText = await readFile(join(folder, file), 'utf8');
  return { name, versionInfo: version, licenseId: license, extractedText };
}

const packages = new Set();

await mkdir(OUT, { recursive: true });
for (const [name, styles] of Object.entries(WIDGETS)) {
  const bundle = await rolldown({ input: `lib/widget/${name}.js`, platform: 'browser' });
  const { output } = await bundle.write({
    file: `${OUT}/${name}.js`,
    format: 'esm',
    minify: true,
    codeSplitting: false
  });
  await bundle.close();
  for (const id of output.flatMap(chunk => chunk.moduleIds ?? [])) {
    const found = /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(id);
    if (found) {
      packages.add(found[0]);
    }
  }
  const sheets = await Promise.all(styles.map(style => readFile(`style/${style}.css`, 'utf8')));
  await writeFile(`${OUT}/${name}.css`, sheets.join('\n'));
}

const licences = await Promise.all([...packages].sort().map(licence));
await writeFile(
  `${OUT}/third-party-licenses.json`,
  `${JSON.stringify({ packages: licences }, null, 2)}\n`
);
