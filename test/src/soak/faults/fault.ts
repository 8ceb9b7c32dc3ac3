import type { SoakMesh } from "../soak-mesh.js";

const MINUTE_MS = 60_000;

/** Of a fault that lasts as long as a short hiccup, as long as others wait for an answer, and until everybody has noticed. */
export const LENGTHS_MS = { kill: 1_500, pause: 20_000, away: MINUTE_MS } as const;

/** What can be done to a mesh for a while, and undone. */
export interface Fault {
  readonly name: string;
  /** In a soak that is long enough. */
  readonly lengthMs: number;
  /** Why this machine cannot do it; undefined when it can. */
  possible(mesh: SoakMesh): string | undefined;
  /** To what it can be done, one at a time. */
  targets(mesh: SoakMesh): readonly string[];
  /** Returns how it ends. */
  begin(mesh: SoakMesh, target: string): Promise<() => void | Promise<void>>;
}

/** Nothing but a process is needed. */
export const always = (): undefined => undefined;

export function must<T>(thing: T | undefined, name: string): T {
  if (thing === undefined) throw new Error(`there is no ${name}`);
  return thing;
}
