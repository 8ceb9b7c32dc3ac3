import { useEffect, useRef, useState } from "preact/hooks";
import { post } from "./ask.js";
import { Told } from "./lists.js";
import type { ActionAnswer, RowKind, Rows } from "./rows.js";

interface Action {
  readonly label: string;
  readonly path: string;
  readonly body: Readonly<Record<string, string>>;
  /** True when the user must type a reason. */
  readonly asksWhy: boolean;
}

function actionsOf(kind: string, name: string, row: Rows[RowKind] | undefined): Action[] {
  const at = encodeURIComponent(name);
  if (row !== undefined && "madeFor" in row) {
    const action = (label: string, what: "delete" | "forget"): Action => {
      return { label, path: `/page/orphans/${at}/${what}`, body: {}, asksWhy: false };
    };
    const forget = action("Forget it", "forget");
    return row.objectCid === "" ? [forget] : [action("Delete it", "delete"), forget];
  }
  if (row === undefined || !("state" in row)) return [];
  if (kind === "host") {
    const path = `/page/hosts/${at}`;
    const word: Action =
      row.state === "dead"
        ? { label: "Say it is not dead", path: `${path}/state`, body: { state: "online" }, asksWhy: false }
        : { label: "Say it is dead", path: `${path}/state`, body: { state: "dead" }, asksWhy: true };
    const fence: Action = { label: "Fence it", path: `${path}/fence`, body: {}, asksWhy: true };
    return [word, fence, ...cordons(path, row), ...removals(path, row)];
  }
  if (kind === "disk" && "isMoving" in row && row.isMoving)
    return [{ label: "Cancel its move", path: `/page/disks/${at}/cancel-move`, body: {}, asksWhy: false }];
  if (kind !== "task" || ("hasEnded" in row && row.hasEnded)) return [];
  const cancel = { label: "Cancel it", path: `/page/tasks/${at}/cancel`, body: {}, asksWhy: false };
  const resume = { label: "Resume it", path: `/page/tasks/${at}/resume`, body: {}, asksWhy: false };
  return row.state === "held" ? [resume, cancel] : [cancel];
}

function cordons(path: string, row: Rows[RowKind]): Action[] {
  if (!("isCordoned" in row) || row.state === "dead") return [];
  return row.isCordoned
    ? [{ label: "Open it again", path: `${path}/state`, body: { state: "online" }, asksWhy: false }]
    : [{ label: "Cordon it", path: `${path}/state`, body: { state: "cordoned" }, asksWhy: true }];
}

/** Returns the actions that start, continue or revoke the removal of a host. */
function removals(path: string, row: Rows[RowKind]): Action[] {
  if (!("removal" in row)) return [];
  const action = (label: string, what: "remove" | "keep"): Action => {
    return { label, path: `${path}/${what}`, body: {}, asksWhy: false };
  };
  if (row.removal === "") return [action("Remove it", "remove")];
  const keep = action("Keep it after all", "keep");
  return row.removal === "done" ? [keep] : [action("Go on removing it", "remove"), keep];
}

interface ActionButtonsProps {
  readonly kind: string;
  readonly name: string;
  readonly row: Rows[RowKind] | undefined;
}

/** Shows the actions of an object, each behind a confirmation with its consequences. */
export function ActionButtons({ kind, name, row }: ActionButtonsProps) {
  const [chosen, setChosen] = useState<Action>();
  const actions = actionsOf(kind, name, row);
  if (actions.length === 0 && chosen === undefined) return null;
  return (
    <div class="actions">
      {actions.map((action) => (
        <button key={action.label} type="button" onClick={() => setChosen(action)}>
          {action.label}…
        </button>
      ))}
      {chosen && <Confirmation key={chosen.label} name={name} action={chosen} onClose={() => setChosen(undefined)} />}
    </div>
  );
}

const MIN_AGAIN_MS = 1_000;

interface ConfirmationProps {
  readonly name: string;
  readonly action: Action;
  readonly onClose: () => void;
}

/** Asks the director for a dry run, shows its result, and offers to execute it. */
function Confirmation({ name, action, onClose }: ConfirmationProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState("");
  const [foreseen, setForeseen] = useState<readonly string[]>();
  const [done, setDone] = useState<ActionAnswer>();
  const [failure, setFailure] = useState("");
  const [isAsking, setAsking] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const isReady = !action.asksWhy || reason.trim() !== "";

  const send = async (dryRun: boolean, tell: (answer: ActionAnswer) => void): Promise<void> => {
    setAsking(true);
    setFailure("");
    try {
      const body = { ...action.body, reason: reason.trim(), dry_run: dryRun, again: done !== undefined };
      tell(await post<ActionAnswer>(action.path, body));
    } catch (error) {
      setFailure((error as Error).message);
    } finally {
      setAsking(false);
    }
  };
  const foresee = (): Promise<void> => send(true, ({ lines }) => setForeseen(lines));
  useEffect(() => {
    if (!action.asksWhy) void foresee();
  }, []);
  // Repeats an incomplete action while the dialog is open.
  useEffect(() => {
    if (done?.againAfterMs === undefined) return;
    const timer = setTimeout(() => void send(false, setDone), Math.max(MIN_AGAIN_MS, done.againAfterMs));
    return () => clearTimeout(timer);
  }, [done]);

  return (
    <dialog ref={dialog} aria-labelledby="action-title" onClose={onClose}>
      <h2 id="action-title">
        {action.label}: {name}
      </h2>
      {action.asksWhy && done === undefined && (
        <label>
          Why? It is recorded with what is done.
          <input
            value={reason}
            maxLength={400}
            onInput={({ currentTarget }) => {
              setReason(currentTarget.value);
              setForeseen(undefined);
            }}
          />
        </label>
      )}
      <div aria-live="polite">
        {foreseen && !done && <Lines title="What will happen" lines={foreseen} />}
        {done && (
          <Lines title={done.againAfterMs === undefined ? "Done" : "Noted, and not done yet"} lines={done.lines} />
        )}
        {failure !== "" && (
          <p class="trouble" role="alert">
            {failure}
          </p>
        )}
      </div>
      <div class="actions">
        <button type="button" onClick={() => dialog.current?.close()}>
          {done ? "Close" : "Leave it"}
        </button>
        {!done && !foreseen && (
          <button type="button" disabled={!isReady || isAsking} onClick={foresee}>
            Show what will happen
          </button>
        )}
        {foreseen && !done && (
          <button type="button" class="does" disabled={!isReady || isAsking} onClick={() => send(false, setDone)}>
            {action.label}
          </button>
        )}
      </div>
    </dialog>
  );
}

function Lines({ title, lines }: { title: string; lines: readonly string[] }) {
  return (
    <>
      <h3>{title}</h3>
      <ul>
        {lines.map((line) => (
          <li key={line}>
            <Told text={line} />
          </li>
        ))}
      </ul>
    </>
  );
}
