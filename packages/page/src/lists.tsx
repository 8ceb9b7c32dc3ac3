import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { addressOf, useSelection } from "./hooks.js";
import type { Rows, Shown } from "./rows.js";
import { store } from "./store.js";
import { ageText } from "./text.js";

/** Number of rows shown before the user asks for more. The other rows are not in the HTML document. */
const SHOWN = 40;

const WRAPPED = ["disk", "disks", "lock", "last error", "description"];

/** A link to the object with this name. */
export function Thing({ kind, name, children }: { kind: string; name: string; children?: ComponentChildren }) {
  const selected = useSelection();
  // VMs of other directors have no panel.
  if (kind === "vm" && !store.tables.vm.has(instanceOf(name))) return <>{name}</>;
  const isCurrent = selected?.kind === kind && selected.name === name;
  return (
    <a class="thing" href={addressOf({ kind, name })} {...(isCurrent && { "aria-current": "true" as const })}>
      {children ?? labelOf(kind, name)}
    </a>
  );
}

/** Returns the name that users gave the object. */
export function labelOf(kind: string, name: string): string {
  if (kind === "vm") return instanceOf(name);
  if (kind !== "disk") return name;
  return store.tables.label.get(name)?.text ?? store.tables.disk.get(name)?.formerName ?? name;
}

/** Returns the name of the instance with this name, id or VM CID; services name VMs by each of them. */
export function instanceOf(name: string): string {
  const { vm } = store.tables;
  if (vm.has(name)) return name;
  const [found] = [...vm].find(([, { id, cid }]) => id === name || cid === name) ?? [];
  return found ?? name;
}

/** Ids of instances, and CIDs of many infrastructures. */
const UUID = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

/** Replaces disk CIDs and ids of instances in a service's text by the users' names. */
export function withLabels(text: string): string {
  const instances = text.replace(/(?:[\w-]+\/){1,2}([\da-f-]{36})/g, (all, id: string) => {
    const name = instanceOf(id);
    return name === id ? all : name;
  });
  const named = instances.replace(/[\w-]+(?:[.:][\w-]+)*/g, (word) => {
    const name = labelOf("disk", word);
    return name === word && UUID.test(word) ? instanceOf(word) : name;
  });
  // A service that says both name and id of an object would name it twice.
  return named.replace(/([\w/-]+) \(\1\)/g, "$1");
}

/** Shows a service's text with the users' names of disks, and with links to the documentation that it names. */
export function Told({ text }: { text: string }) {
  const parts = withLabels(text).split(/\b(docs\/(?:[\w-]+\/)*[\w-]+\.md)\b/);
  return (
    <>
      {parts.map((part, index) =>
        index % 2 === 0 ? (
          part
        ) : (
          <a key={part} class="thing" href={`/page/${part}`}>
            {part}
          </a>
        ),
      )}
    </>
  );
}

/** Shows a state as a mark and a word. The mark's shape and its colour each stand for the state. */
export function State({ state }: { state: string }) {
  return (
    <span class={`state ${state}`}>
      <span class="mark" aria-hidden="true" />
      {state}
    </span>
  );
}

export function Age({ sinceMs }: { sinceMs: number | undefined }) {
  if (sinceMs === undefined) return null;
  return (
    <time dateTime={new Date(sinceMs).toISOString()} title={new Date(sinceMs).toLocaleString()}>
      {ageText(sinceMs)}
    </time>
  );
}

export interface Column<Row> {
  readonly title: string;
  readonly cell: (name: string, row: Row) => ComponentChildren;
  readonly isNumber?: true;
}

const TROUBLE: Column<Shown> = {
  title: "trouble",
  cell: (_name, { trouble }) =>
    trouble && (
      <span class="why">
        <Told text={trouble} />
      </span>
    ),
};

interface ListProps<Row> {
  readonly id: string;
  readonly title: string;
  readonly rows: readonly (readonly [name: string, row: Row])[];
  readonly columns: readonly Column<Row>[];
  /** Number of objects from which the rows were found; absent for all. */
  readonly total?: number;
  readonly none: string;
  readonly note?: string;
  /** True: rows may be missing. */
  readonly isLoading: boolean;
}

/** Shows a table of the first SHOWN rows; a button shows more. A column has the troubles of rows, if there are any. */
export function List<Row extends Shown>(props: ListProps<Row>) {
  const { id, title, rows, total = rows.length, none, note = "", isLoading } = props;
  const [shown, setShown] = useState(SHOWN);
  const isTroubled = rows.slice(0, shown).some(([, { trouble }]) => trouble !== undefined);
  const columns: readonly Column<Row>[] = isTroubled ? [...props.columns, TROUBLE] : props.columns;
  const count =
    total > rows.length
      ? `${rows.length.toLocaleString("en")} of ${total.toLocaleString("en")}`
      : rows.length.toLocaleString("en");
  return (
    <section aria-labelledby={`${id}-title`} id={id}>
      <h2 id={`${id}-title`}>
        {title} {(rows.length > 0 || !isLoading) && <span class="count">{count}</span>}
      </h2>
      {rows.length === 0 ? (
        <p class="none">{isLoading ? "Loading…" : total > 0 ? "None of them has the text of Find." : none}</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users need focus to scroll a table wider than the screen.
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is for forms.
        <div class="scroll" tabIndex={0} role="group" aria-labelledby={`${id}-title`}>
          <table>
            <thead>
              <tr>
                {columns.map((column) => (
                  <th key={column.title} scope="col" class={classOf(column)}>
                    {column.title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.slice(0, shown).map(([name, row]) => (
                <tr key={name} data-name={name}>
                  {columns.map((column) => (
                    <td key={column.title} class={classOf(column)}>
                      {column.cell(name, row)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {note !== "" && <p class="none note">{note}</p>}
      {rows.length > shown && (
        <button type="button" class="more" onClick={() => setShown(shown + 10 * SHOWN)}>
          {`Show more: ${(rows.length - shown).toLocaleString("en")} are not shown`}
        </button>
      )}
    </section>
  );
}

/** Returns the class of a column's cells: text of any length wraps. */
function classOf({ title, isNumber }: Pick<Column<Shown>, "title" | "isNumber">): string {
  if (title === TROUBLE.title) return "long trouble-of";
  return isNumber ? "number" : WRAPPED.includes(title) ? "long" : "";
}

type Named<Kind extends keyof Rows> = readonly (readonly [string, Rows[Kind]])[];

/** Sorts rows with trouble first, then by name. */
export function inOrder<Kind extends keyof Rows>(
  table: ReadonlyMap<string, Rows[Kind]>,
  matches: (name: string, row: Rows[Kind]) => boolean = () => true,
): Named<Kind> {
  const rank = (row: Rows[Kind]): number => (row.trouble === undefined ? 1 : 0);
  return [...table]
    .filter(([name, row]) => matches(name, row))
    .sort(([a, rowA], [b, rowB]) => rank(rowA) - rank(rowB) || BY_NAME.compare(a, b));
}

const BY_NAME = new Intl.Collator("en", { numeric: true });
