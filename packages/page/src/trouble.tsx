import { Age, Thing } from "./lists.js";
import type { RowKind, Rows } from "./rows.js";
import type { Store } from "./store.js";

/** The fleet below stays in sight; its lists have the rest, first. */
const MAX_SHOWN = 10;
/** The worst first: what others wait for. */
const KINDS: readonly RowKind[] = ["source", "host", "task", "vm", "disk", "device", "cpi"];

interface Troubled {
  readonly kind: RowKind;
  readonly name: string;
  readonly row: Rows[RowKind] & { readonly trouble: string };
}

function troubled({ tables }: Store): Troubled[] {
  const all = KINDS.flatMap((kind) =>
    [...(tables[kind] as ReadonlyMap<string, Rows[RowKind]>)].flatMap(([name, row]) =>
      row.trouble === undefined ? [] : [{ kind, name, row: { ...row, trouble: row.trouble } }],
    ),
  );
  // Nothing waits for a task that has failed.
  const hasEnded = ({ row }: Troubled) => "hasEnded" in row && row.hasEnded;
  return [...all.filter((each) => !hasEnded(each)), ...all.filter(hasEnded)];
}

/** What is stuck, on top of all else. */
export function Trouble({ store }: { store: Store }) {
  const found = troubled(store);
  const isReading = [...store.tables.source.values()].some(({ state }) => state === "reading");
  const none = store.tables.source.size === 0 || isReading ? "Reading…" : "Nothing is stuck.";
  return (
    <section aria-labelledby="trouble-title" id="trouble" class={found.length > 0 ? "has-trouble" : ""}>
      <h2 id="trouble-title">
        Needs attention <span class="count">{found.length.toLocaleString("en")}</span>
      </h2>
      {found.length === 0 ? (
        <p class="none">{none}</p>
      ) : (
        <ul>
          {found.slice(0, MAX_SHOWN).map(({ kind, name, row }) => (
            <li key={`${kind} ${name}`}>
              <span class="kind">{kind === "source" ? "service" : kind}</span>
              <Thing kind={kind} name={name} />
              <span class="why">{row.trouble}</span>
              <Age sinceMs={row.sinceMs} />
            </li>
          ))}
        </ul>
      )}
      {found.length > MAX_SHOWN && <p class="none">{`and ${found.length - MAX_SHOWN} more`}</p>}
    </section>
  );
}
