// What Python writes as base64.

/** Numbers of float32 from base64. @param {string} text */
export function floats(text) {
  const binary = atob(text), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/** Bytes from base64. @param {string} text */
export function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Bits from base64, 0 or 1; the first is the highest of the first byte. @param {string} text */
export function bitsOf(text) {
  const bytes = bytesOf(text);
  return Uint8Array.from({length: 8 * bytes.length}, (_, i) => (bytes[i >> 3] >> (7 - (i & 7))) & 1);
}
