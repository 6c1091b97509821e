import js from '@eslint/js';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

const typed = {
  files: ['**/*.ts', '**/*.tsx'],
  extends: [tseslint.configs.strictTypeChecked],
  languageOptions: { parserOptions: { projectService: true } },
  rules: {
    '@typescript-eslint/no-confusing-void-expression': 'off',
    '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }]
  }
};

export default defineConfig([
  { ignores: ['lib', 'node_modules'] },
  js.configs.recommended,
  typed,
  {
    rules: {
      'no-restricted-properties': [
        'error',
        ...['innerHTML', 'outerHTML', 'insertAdjacentHTML', 'dangerouslySetInnerHTML'].map(
          property => ({ property, message: 'What a job says stays text.' })
        )
      ],
      'no-restricted-syntax': [
        'error',
        {
          selector: 'JSXAttribute[name.name="dangerouslySetInnerHTML"]',
          message: 'What a job says stays text.'
        }
      ],
      eqeqeq: 'error'
    }
  },
  { files: ['*.js'], languageOptions: { globals: { console: false, process: false } } },
  {
    files: ['src/core/**'],
    rules: {
      'no-restricted-imports': [
        'error',
        { patterns: [{ group: ['@jupyter*', '@lumino/*'], message: 'core runs anywhere.' }] }
      ]
    }
  }
]);
