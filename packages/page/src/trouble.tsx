import { useState } from "preact/hooks";
import { type Attention, attentionTo, type Troubled, type TroubledKind } from "./attention.js";
import { Age, Thing, Told } from "./lists.js";
import type { Rows } from "./rows.js";
import type { Store } from "./store.js";
import { countText, kindText } from "./text.js";

/** Maximum number of lines until the user asks for more, so that the fleet below stays visible. */
const MAX_SHOWN = 10;
/** Number of names that are shown of an entry. */
const NAMED = 3;

/** Returns the list of what needs attention. */
export function attentionOf(store: Store): Attention[] {
  return attentionTo((kind) => troubledIn(store, kind));
}

function troubledIn({ tables }: Store, kind: TroubledKind): Troubled[] {
  return [...(tables[kind] as ReadonlyMap<string, Rows[TroubledKind]>)].flatMap(([name, row]): Troubled[] => {
    const { trouble, sinceMs } = row;
    if (trouble === undefined) return [];
    return [{ kind, name, trouble, sinceMs, hasEnded: "hasEnded" in row && row.hasEnded }];
  });
}

/** Returns the number of objects that need attention. */
export function countOf(found: readonly Attention[]): number {
  return found.reduce((sum, { names }) => sum + names.length, 0);
}

/** Shows the first MAX_SHOWN groups of objects with the same trouble, and how many more objects have trouble. */
export function Trouble({ store, found }: { store: Store; found: readonly Attention[] }) {
  const count = countOf(found);
  const [shown, setShown] = useState(MAX_SHOWN);
  const more = countOf(found.slice(shown));
  const isReading = store.isReading("director") || store.isReading("disk-registry");
  const none = isReading ? "Loading…" : "Nothing is stuck.";
  return (
    <section aria-labelledby="trouble-title" id="trouble" class={found.length > 0 ? "has-trouble" : ""}>
      <h2 id="trouble-title">
        Needs attention {(count > 0 || !isReading) && <span class="count">{count.toLocaleString("en")}</span>}
      </h2>
      {found.length === 0 ? (
        <p class="none">{none}</p>
      ) : (
        <ul>
          {found.slice(0, shown).map(({ kind, names, trouble, sinceMs }) => (
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
              <span class="why">
                <Told text={trouble} />
              </span>
              <Age sinceMs={sinceMs} />
            </li>
          ))}
        </ul>
      )}
      {more > 0 && (
        <button type="button" class="more" onClick={() => setShown(shown + 10 * MAX_SHOWN)}>
          {`Show more: ${more.toLocaleString("en")} are not shown`}
        </button>
      )}
    </section>
  );
}
