/** Yields the messages of a stemcell upload. */
export async function* uploadOf(file: Buffer) {
  yield { part: { $case: "header" as const, value: { wait: true } } };
  yield { part: { $case: "chunk" as const, value: file } };
}
