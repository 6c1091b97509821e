import { fileURLToPath } from 'node:url';

import { defineConfig } from 'vitest/config';

const none = fileURLToPath(new URL('./test/fakes/nocomponents.ts', import.meta.url));

export default defineConfig({
  test: {
    environment: 'happy-dom',
    include: ['test/**/*.test.{ts,tsx}'],
    alias: { '@jupyter/react-components': none, '@jupyter/web-components': none },
    // JupyterLab's packages leave out the ends of file names, which Node wants.
    server: { deps: { inline: [/@jupyter/] } }
  }
});
