import { useEffect, useState } from "preact/hooks";
import { ask } from "./ask.js";
import { type Store, store } from "./store.js";

/** Kind and name of the displayed object, as in the page's URL. */
export interface Selection {
  readonly kind: string;
  readonly name: string;
}

/** Returns the store, and renders on each change of it. */
export function useStore(): Store {
  const [, setVersion] = useState(0);
  useEffect(() => store.listen(() => setVersion(store.version)), []);
  return store;
}

/** Renders periodically, to update ages. */
export function useTicks(intervalMs: number): void {
  const [, setTicks] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setTicks((ticks) => ticks + 1), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
}

export function addressOf({ kind, name }: Selection): string {
  return `#${kind}/${encodeURIComponent(name)}`;
}

/** Returns the fragment of the page's URL, with "#". */
export function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = (): void => setHash(location.hash);
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

export function useSelection(): Selection | undefined {
  const [, kind, name] = /^#([a-z]+)\/(.+)$/.exec(useHash()) ?? [];
  if (kind === undefined || name === undefined) return undefined;
  try {
    return { kind, name: decodeURIComponent(name) };
  } catch {
    return undefined;
  }
}

/** Returns whether the dark theme is used. */
export function useDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const changed = (): void => setDark(query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return isDark;
}

export interface Asked<Answer> {
  readonly answer?: Answer;
  readonly failure?: string;
}

/**
 * Returns the director's answer, requested again whenever `mark` changes; the last answer stays until the next one
 * arrives.
 */
export function useAnswer<Answer>(path: string, mark: unknown): Asked<Answer> {
  const [asked, setAsked] = useState<Asked<Answer> & { readonly path: string }>({ path });
  useEffect(() => {
    const gone = new AbortController();
    ask<Answer>(path, { signal: gone.signal }).then(
      (answer) => setAsked({ path, answer }),
      (error: Error) => gone.signal.aborted || setAsked({ path, failure: error.message }),
    );
    return () => gone.abort();
  }, [path, mark]);
  return asked.path === path ? asked : {};
}
