/**
 * Ends the running test as skipped, or from a `before` hook all tests of its suite. The reason becomes part of the
 * title: `npm test` prints it, and fails on a skip without one.
 */
export function skipBecause(context: Mocha.Context, reason: string): never {
  const runnable = context.runnable();
  // Its type is not in the type definitions.
  const isHook = (runnable as { readonly type?: string }).type === "hook";
  const named = isHook ? runnable.parent : runnable;
  if (named) named.title += ` [skipped: ${reason}]`;
  return context.skip();
}
