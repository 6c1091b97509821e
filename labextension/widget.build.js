/* Builds the widgets: one module each, since a widget is loaded from a single text. */

import { mkdir, readFile, writeFile } from 'node:fs/promises';

import { rolldown } from 'rolldown';

const OUT = '../jupyter_jax_trainer/widget/static';

const WIDGETS = {
  job: ['base', 'jobs', 'logcolours', 'glance', 'widget'],
  panel: [
    ...['base', 'jobs', 'job', 'picker', 'plots', 'log', 'logparts', 'logcolours', 'glance'],
    'widget'
  ]
};

await mkdir(OUT, { recursive: true });
for (const [name, styles] of Object.entries(WIDGETS)) {
  const bundle = await rolldown({ input: `lib/widget/${name}.js`, platform: 'browser' });
  await bundle.write({
    file: `${OUT}/${name}.js`,
    format: 'esm',
    minify: true,
    codeSplitting: false
  });
  await bundle.close();
  const sheets = await Promise.all(styles.map(style => readFile(`style/${style}.css`, 'utf8')));
  await writeFile(`${OUT}/${name}.css`, sheets.join('\n'));
}
