/** Yields the messages that upload a stemcell. */
export async function* uploadOf(file: Buffer) {
  yield { part: { $case: "header" as const, value: { wait: true } } };
  yield { part: { $case: "chunk" as const, value: file } };
}
