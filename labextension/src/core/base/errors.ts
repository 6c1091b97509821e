/** Why a question got no answer. */

/** The server's words for what cannot be answered. */
export class Refusal extends Error {
  readonly hint: string | null;

  constructor(message: string, hint: string | null) {
    super(message);
    this.hint = hint;
  }
}

export function withdrawn(): DOMException {
  return new DOMException('The question was withdrawn.', 'AbortError');
}

/** Tell whether a question was withdrawn, rather than refused. */
export function isWithdrawn(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
