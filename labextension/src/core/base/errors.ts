/** Errors of requests and queries, with what the server says about them. */

import { sanitize } from './format';

/** A message for the user, and what to do about it. */
export interface ErrorInfo {
  message: string;
  hint: string | null;
}

/** The server refused a request, or did not answer; the message is for the user. */
export class ServerError extends Error implements ErrorInfo {
  readonly hint: string | null;
  /** Whether there was no answer, so that the same request may succeed later. */
  readonly transient: boolean;

  constructor(message: string, hint: string | null, transient = false) {
    super(message);
    this.hint = hint;
    this.transient = transient;
  }
}

/** Return whatever was thrown as an error with a message for the user. */
export function toServerError(error: unknown): ServerError {
  if (error instanceof ServerError) {
    return error;
  }
  return new ServerError(error instanceof Error ? error.message : String(error), null);
}

/** Return message and hint as one text. */
export function errorText({ message, hint }: ErrorInfo): string {
  return [message, hint ?? ''].filter(Boolean).map(sanitize).join(' ');
}

export function aborted(): DOMException {
  return new DOMException('The query was aborted.', 'AbortError');
}

/** Return whether a query was aborted, rather than refused. */
export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
