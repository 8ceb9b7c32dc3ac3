/** Fields that tests may read of an error without a given class. */
type AnyError = Error & Readonly<Record<string, unknown>>;

/**
 * Returns the error that a promise is rejected with, or that a function throws or rejects with. The error must be of
 * class `kind`, and its message must contain or match `says`; otherwise the test fails with the actual result.
 */
export async function rejection<E extends Error = AnyError>(
  work: Promise<unknown> | (() => unknown),
  kind = Error as unknown as abstract new (
    ...args: never[]
  ) => E,
  says: string | RegExp = "",
): Promise<E> {
  let value: unknown;
  try {
    value = await (typeof work === "function" ? work() : work);
  } catch (error) {
    const fits = (text: string) => (typeof says === "string" ? text.includes(says) : says.test(text));
    if (error instanceof kind && fits(error.message)) return error;
    throw new Error(`failed with ${error}, not with ${kind.name} ${says}`, { cause: error });
  }
  throw new Error(`succeeded with ${JSON.stringify(value)}, which should have failed with ${kind.name} ${says}`);
}
