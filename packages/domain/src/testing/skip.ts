import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * Skips the running test, or from a `before` hook all tests of its suite. The reason becomes part of the title: `npm
 * test` prints it, and fails on a skip without one.
 */
export function skipBecause(context: Mocha.Context, reason: string): never {
  const runnable = context.runnable();
  // The type definitions lack this field.
  const isHook = (runnable as { readonly type?: string }).type === "hook";
  const named = isHook ? runnable.parent : runnable;
  if (named) named.title += ` [skipped: ${reason.trim().replace(/\s+/g, " ")}]`;
  return context.skip();
}

/** Skips like `skipBecause` unless these programs are on PATH. */
export function skipWithout(context: Mocha.Context, ...programs: readonly string[]): void {
  const folders = (process.env.PATH ?? "").split(delimiter);
  const missing = programs.filter((name) => !folders.some((folder) => existsSync(join(folder, name))));
  if (missing.length > 0)
    skipBecause(context, `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} not on PATH`);
}

/** True in a plain `npm test`, which leaves out slow tests (see `leaveToVerify`). */
export const isQuickRun = process.env.DISKMESH_QUICK_RUN === "true";

/**
 * Leaves a slow test with few findings of its own to `npm run verify`: another version, another moment of a kill, a
 * random search. Applies to a test or, from the first `before` hook, to all tests of its suite.
 */
export function leaveToVerify(context: Mocha.Context): void {
  if (isQuickRun) skipBecause(context, "it takes long: `npm run verify` runs it, and `npm test -- PART-OF-ITS-FILE`");
}
