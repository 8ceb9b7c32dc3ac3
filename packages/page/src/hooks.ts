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

/** The places of the page. Each has the fragment "#PLACE"; that of the events has a query. */
export const PLACES = ["overview", "hosts", "disks", "tasks", "space", "events"] as const;
export type Place = (typeof PLACES)[number];

/** Places in which kinds of objects are listed. Objects of other kinds are listed in the overview. */
const HOMES: Readonly<Record<string, Place>> = {
  ...{ host: "hosts", device: "hosts", vm: "hosts", disk: "disks" },
  ...{ task: "tasks", lock: "tasks", pool: "space" },
};

interface Location {
  readonly place: Place;
  /** Fragment of the shown place, with its query. */
  readonly placeHash: string;
  /** Object shown beside the place. */
  readonly selection: Selection | undefined;
}

let placeHash = "";

/**
 * Returns what the page's URL shows. An object is shown beside the place from which it was opened, or beside its list
 * when a link from elsewhere opened it. The browser's history has the place, for Back and Forward.
 */
function readLocation(): Location {
  const { hash } = location;
  const selection = selectionOf(hash);
  const noted = (history.state as { readonly placeHash?: string } | null)?.placeHash;
  if (selection === undefined) placeHash = placeOf(hash) === undefined ? "#overview" : hash;
  else placeHash = noted ?? (placeHash || `#${HOMES[selection.kind] ?? "overview"}`);
  if (noted !== placeHash) history.replaceState({ placeHash }, "");
  return { place: placeOf(placeHash) ?? "overview", placeHash, selection };
}

function placeOf(hash: string): Place | undefined {
  return PLACES.find((place) => hash === `#${place}` || hash.startsWith(`#${place}?`));
}

function selectionOf(hash: string): Selection | undefined {
  const [, kind, name] = /^#([a-z]+)\/(.+)$/.exec(hash) ?? [];
  if (kind === undefined || name === undefined) return undefined;
  try {
    return { kind, name: decodeURIComponent(name) };
  } catch {
    return undefined;
  }
}

/** Returns the shown place and object, and renders when they change. */
export function useLocation(): Location {
  const [shown, setShown] = useState(readLocation);
  useEffect(() => {
    const changed = (): void => setShown(readLocation());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return shown;
}

export function useSelection(): Selection | undefined {
  return useLocation().selection;
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
