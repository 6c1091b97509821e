type Value = string | number;

/** The translator's two functions that the views use; JupyterLab's `TranslationBundle` has them. */
export interface Translator {
  __(message: string, ...values: Value[]): string;
  _n(one: string, many: string, count: number, ...values: Value[]): string;
}

function fill(message: string, values: Value[]): string {
  return message.replace(/%(\d)/g, (whole, n: string) => {
    const value = values[Number(n) - 1];
    return value === undefined ? whole : String(value);
  });
}

/** English, for hosts without a translator. */
export const english: Translator = {
  __: (message, ...values) => fill(message, values),
  _n: (one, many, count, ...values) => fill(count === 1 ? one : many, [count, ...values])
};
