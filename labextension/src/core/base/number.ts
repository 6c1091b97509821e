/** Give a value with at most five significant digits, and whole numbers as they are. */
export function number(value: number): string {
  if (!Number.isFinite(value)) {
    return '–';
  }
  if (Number.isInteger(value) && Math.abs(value) < 1e7) {
    return String(value);
  }
  const size = Math.abs(value);
  if (size >= 1000 && size < 1e7) {
    return value.toFixed(1);
  }
  if (size < 1e-3) {
    return value.toExponential(3).replace(/\.?0*e/, 'e');
  }
  return String(Number(value.toPrecision(4))).replace('e+', 'e');
}
