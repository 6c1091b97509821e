import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

import ts from 'typescript';
import { describe, expect, it } from 'vitest';

/**
 * The layers of `src`, lowest first. A module imports from its own folder, and from lower layers;
 * folders of one layer do not know each other.
 *
 * - `base`: what all features share: the protocol, the connection, the host, small views.
 * - `plots`, `log`: drawing metrics; reading logs.
 * - `jobs`, `output`, `picker`: the list of jobs; a job in the output of a cell; the runtime picker.
 * - `job`: a job in full; it opens the list of jobs for comparison.
 * - `lab`, `widget`: the plugins of JupyterLab; the widgets for other notebooks.
 */
const LAYERS = [
  ['src/core/base'],
  ['src/core/plots', 'src/core/log'],
  ['src/core/jobs', 'src/core/output', 'src/core/picker'],
  ['src/core/job'],
  ['src/lab', 'src/widget'],
  ['src']
];

/** Only these may import from Jupyter. */
const JUPYTER = /^@(jupyter|jupyterlab|lumino)(-\w+)?\//;

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .map(file => join('src', file))
  .filter(file => /\.tsx?$/.test(file));

/** Return the specifiers of all imports of a text: static and lazy ones, of values and of types. */
function specifiersOf(file: string, text: string): string[] {
  const kind = file.endsWith('x') ? ts.ScriptKind.TSX : ts.ScriptKind.TS;
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    let specifier: ts.Node | undefined;
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
      specifier = node.moduleSpecifier;
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      specifier = node.argument.literal;
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      specifier = node.arguments[0];
    }
    if (specifier && ts.isStringLiteral(specifier)) {
      found.push(specifier.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, kind));
  return found;
}

const specifiers = new Map(
  files.map(file => [file, specifiersOf(file, readFileSync(file, 'utf8'))])
);

/** Return the file that a relative import means. */
function resolve(from: string, specifier: string): string {
  const path = normalize(join(dirname(from), specifier));
  const found = [`${path}.ts`, `${path}.tsx`].find(file => specifiers.has(file));
  if (found === undefined) {
    throw new Error(`${from} imports ${specifier}, which does not exist`);
  }
  return found;
}

const imports = new Map(
  [...specifiers].map(([file, found]) => [
    file,
    found.filter(each => each.startsWith('.')).map(each => resolve(file, each))
  ])
);

/** Return the first circle of imports that is found, as a path. */
function circleIn(graph: ReadonlyMap<string, readonly string[]>): string[] | null {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] | null => {
    if (path.includes(file)) {
      return [...path.slice(path.indexOf(file)), file];
    }
    if (done.has(file)) {
      return null;
    }
    done.add(file);
    for (const next of graph.get(file) ?? []) {
      const circle = visit(next, [...path, file]);
      if (circle) {
        return circle;
      }
    }
    return null;
  };
  for (const file of graph.keys()) {
    const circle = visit(file, []);
    if (circle) {
      return circle;
    }
  }
  return null;
}

function layerOf(folder: string): number {
  return LAYERS.findIndex(folders => folders.includes(folder));
}

/** Return the imports that the layers forbid. */
function forbiddenIn(graph: ReadonlyMap<string, readonly string[]>): string[] {
  return [...graph].flatMap(([file, targets]) =>
    targets
      .filter(target => {
        const [own, other] = [dirname(file), dirname(target)];
        return own !== other && layerOf(other) >= layerOf(own);
      })
      .map(target => `${file} imports ${target}`)
  );
}

describe('the modules', () => {
  it('are all in a folder that has a layer', () => {
    expect(files.filter(file => layerOf(dirname(file)) < 0)).toEqual([]);
    expect(files.length).toBeGreaterThan(50);
  });

  it('import each other in no circle, lazy imports included', () => {
    expect(circleIn(imports)).toBeNull();
  });

  it('import from lower layers only', () => {
    expect(forbiddenIn(imports)).toEqual([]);
  });

  it('know no backend by its name', () => {
    const named = files.filter(file =>
      /['"`](kubernetes|local)\b/.test(readFileSync(file, 'utf8'))
    );
    expect(named).toEqual([]);
  });

  it('of the core know nothing of Jupyter', () => {
    const found = [...specifiers]
      .filter(([file]) => file.startsWith('src/core/'))
      .flatMap(([file, used]) =>
        used.filter(each => JUPYTER.test(each)).map(each => `${file} imports ${each}`)
      );
    expect(found).toEqual([]);
  });
});

describe('this test', () => {
  it('finds all kinds of imports', () => {
    const text = `
      import a from './a';
      import type { B } from './b';
      export { c } from './c';
      const d = () => import('./d');
      type E = import('./e').E;
      // import f from './f';
    `;
    expect(specifiersOf('x.ts', text)).toEqual(['./a', './b', './c', './d', './e']);
  });

  it('finds a circle, and an import that goes up or to the side', () => {
    const graph = new Map([
      ['src/core/base/a.ts', ['src/core/log/b.ts']],
      ['src/core/log/b.ts', ['src/core/plots/c.ts']],
      ['src/core/plots/c.ts', ['src/core/base/a.ts']]
    ]);
    expect(circleIn(graph)).toEqual([
      'src/core/base/a.ts',
      'src/core/log/b.ts',
      'src/core/plots/c.ts',
      'src/core/base/a.ts'
    ]);
    expect(forbiddenIn(graph)).toEqual([
      'src/core/base/a.ts imports src/core/log/b.ts',
      'src/core/log/b.ts imports src/core/plots/c.ts'
    ]);
  });
});
