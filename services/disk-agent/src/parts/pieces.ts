/** Returns the bytes of a read that was split. */
export async function joined(reads: readonly Promise<Uint8Array>[]): Promise<Uint8Array> {
  const chunks = await Promise.all(reads);
  const [only] = chunks;
  return chunks.length === 1 && only ? only : Buffer.concat(chunks);
}

/** Waits for all promises even when one fails, because a request must have no I/O in flight after its answer. */
export async function settled<T>(promises: readonly Promise<T>[]): Promise<readonly T[]> {
  return (await Promise.allSettled(promises)).map((result) => {
    if (result.status === "rejected") throw result.reason;
    return result.value;
  });
}
