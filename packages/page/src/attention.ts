/**
 * Minimum number of objects of one kind with the same trouble that are merged into one entry.
 */
const MANY = 4;
/** Kinds by severity: each kind comes before the kinds that depend on it. */
const KINDS = ["source", "host", "task", "vm", "disk", "device", "cpi"] as const;

export type TroubledKind = (typeof KINDS)[number];

/** An object with trouble. */
export interface Troubled {
  readonly kind: TroubledKind;
  readonly name: string;
  readonly trouble: string;
  /** Start of the trouble, in ms since 1970. */
  readonly sinceMs: number | undefined;
  /** True for a failed task: no other object waits for it, so it is listed last. */
  readonly hasEnded: boolean;
}

/** An entry of the list of what needs attention: an object, or several objects of a kind with the same trouble. */
export interface Attention extends Omit<Troubled, "name"> {
  readonly names: readonly string[];
}

/**
 * Returns the list of what needs attention, most severe first. The page and the command show this list. `troubled`
 * returns the objects of a kind in the order of their list.
 */
export function attentionTo(troubled: (kind: TroubledKind) => readonly Troubled[]): Attention[] {
  const all = KINDS.flatMap((kind) => {
    // Node 20, which runs the command, has no Map.groupBy.
    const byTrouble = new Map<string, Troubled[]>();
    for (const each of troubled(kind)) {
      const key = each.trouble.replaceAll(each.name, "");
      const same = byTrouble.get(key);
      if (same === undefined) byTrouble.set(key, [each]);
      else same.push(each);
    }
    return [...byTrouble.values()].flatMap((same) => (same.length < MANY ? same.map(alone) : [together(same)]));
  });
  return [...all.filter(({ hasEnded }) => !hasEnded), ...all.filter(({ hasEnded }) => hasEnded)];
}

function alone({ name, ...rest }: Troubled): Attention {
  return { ...rest, names: [name] };
}

/** Merges objects with equal trouble into one entry, with the text of the first and the age of the oldest. */
function together(same: readonly Troubled[]): Attention {
  const [{ name: _, ...first }] = same as [Troubled];
  const since = same.flatMap(({ sinceMs }) => (sinceMs === undefined ? [] : [sinceMs]));
  const sinceMs = since.length === 0 ? undefined : since.reduce((oldest, each) => Math.min(oldest, each));
  return { ...first, names: same.map(({ name }) => name), sinceMs };
}
