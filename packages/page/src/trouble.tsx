import { Age, Thing, withLabels } from "./lists.js";
import type { RowKind, Rows } from "./rows.js";
import type { Store } from "./store.js";
import { countText, kindText } from "./text.js";

/** Maximum number of lines, so that the fleet below stays visible. The lists show objects with trouble first. */
const MAX_SHOWN = 10;
/**
 * Minimum number of objects of one kind with the same trouble that are merged into one line. The line shows the first
 * NAMED names.
 */
const MANY = 4;
const NAMED = 3;
/** Kinds by severity: each kind comes before the kinds that depend on it. */
const KINDS: readonly RowKind[] = ["source", "host", "task", "vm", "disk", "device", "cpi"];

interface Troubled {
  readonly kind: RowKind;
  readonly names: readonly string[];
  readonly trouble: string;
  readonly sinceMs: number | undefined;
  /** True for a failed task: no other object waits for it, so it is listed last. */
  readonly hasEnded: boolean;
}

function troubled({ tables }: Store): Troubled[] {
  const all = KINDS.flatMap((kind) => {
    const found = [...(tables[kind] as ReadonlyMap<string, Rows[RowKind]>)].flatMap(([name, row]): Troubled[] => {
      const { trouble, sinceMs } = row;
      if (trouble === undefined) return [];
      return [{ kind, names: [name], trouble, sinceMs, hasEnded: "hasEnded" in row && row.hasEnded }];
    });
    return [...Map.groupBy(found, ({ names: [name = ""], trouble }) => trouble.replaceAll(name, "")).values()].flatMap(
      (same) => (same.length < MANY ? same : [together(same)]),
    );
  });
  return [...all.filter(({ hasEnded }) => !hasEnded), ...all.filter(({ hasEnded }) => hasEnded)];
}

/** Merges rows with equal trouble into one, with the text of the first and the age of the oldest. */
function together(same: readonly Troubled[]): Troubled {
  const [first] = same as [Troubled];
  const since = same.flatMap(({ sinceMs }) => (sinceMs === undefined ? [] : [sinceMs]));
  const sinceMs = since.length === 0 ? undefined : since.reduce((oldest, each) => Math.min(oldest, each));
  return { ...first, names: same.flatMap(({ names }) => names), sinceMs };
}

/** Shows the first MAX_SHOWN groups of objects with the same trouble, and how many more objects have trouble. */
export function Trouble({ store }: { store: Store }) {
  const found = troubled(store);
  const count = found.reduce((sum, { names }) => sum + names.length, 0);
  const more = found.slice(MAX_SHOWN).reduce((sum, { names }) => sum + names.length, 0);
  const isReading = [...store.tables.source.values()].some(({ state }) => state === "reading");
  const none = store.tables.source.size === 0 || isReading ? "Reading…" : "Nothing is stuck.";
  return (
    <section aria-labelledby="trouble-title" id="trouble" class={found.length > 0 ? "has-trouble" : ""}>
      <h2 id="trouble-title">
        Needs attention <span class="count">{count.toLocaleString("en")}</span>
      </h2>
      {found.length === 0 ? (
        <p class="none">{none}</p>
      ) : (
        <ul>
          {found.slice(0, MAX_SHOWN).map(({ kind, names, trouble, sinceMs }) => (
            <li key={`${kind} ${names[0]}`}>
              <span class="kind">{names.length === 1 ? kindText(kind) : countText(names.length, kindText(kind))}</span>
              <span>
                {names.slice(0, NAMED).map((name) => (
                  <span key={name} class="one">
                    <Thing kind={kind} name={name} />
                  </span>
                ))}
                {names.length > NAMED && "…"}
              </span>
              <span class="why">{withLabels(trouble)}</span>
              <Age sinceMs={sinceMs} />
            </li>
          ))}
        </ul>
      )}
      {more > 0 && <p class="none">{`and ${more.toLocaleString("en")} more`}</p>}
    </section>
  );
}
