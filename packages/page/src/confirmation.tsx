import { useEffect, useRef, useState } from "preact/hooks";
import { InputError, post } from "./ask.js";
import { useStore } from "./hooks.js";
import { labelOf, State, Thing, Told } from "./lists.js";
import type { ActionAnswer } from "./rows.js";

/** A text that an action needs of the user, or a choice of [value, text]. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  /** Sentence below the input. */
  readonly note?: string;
  readonly choices?: readonly (readonly [value: string, text: string])[];
  readonly isOptional?: boolean;
}

export interface Action {
  readonly label: string;
  readonly path: string;
  readonly body?: Readonly<Record<string, string>>;
  readonly fields?: readonly Field[];
}

/** Longest text of a field. */
const MAX_LENGTH = 400;
const MIN_AGAIN_MS = 1_000;

interface ConfirmationProps {
  readonly kind: string;
  readonly name: string;
  readonly action: Action;
  /** First values of the fields, by name. */
  readonly initial?: Readonly<Record<string, string>>;
  readonly onClose: () => void;
}

/** Asks the director for a dry run, shows its result, and offers to execute it. */
export function Confirmation({ kind, name, action, initial = {}, onClose }: ConfirmationProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const { fields = [] } = action;
  const [values, setValues] = useState<Readonly<Record<string, string>>>(() => ({ ...initialOf(fields), ...initial }));
  const [foreseen, setForeseen] = useState<ActionAnswer>();
  const [done, setDone] = useState<ActionAnswer>();
  const [failure, setFailure] = useState<Error>();
  const [isAsking, setAsking] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const isReady = fields.every(({ name: field, isOptional }) => isOptional || (values[field] ?? "").trim() !== "");

  const send = async (dryRun: boolean, tell: (answer: ActionAnswer) => void): Promise<void> => {
    setAsking(true);
    setFailure(undefined);
    try {
      const given = Object.entries(values).map(([field, value]) => [field, value.trim()]);
      const body = { ...action.body, ...Object.fromEntries(given), dry_run: dryRun, again: done !== undefined };
      tell(await post<ActionAnswer>(action.path, body));
    } catch (error) {
      setFailure(error as Error);
    } finally {
      setAsking(false);
    }
  };
  const wrong = failure instanceof InputError ? fields.find(({ name: field }) => failure.isOf(field)) : undefined;
  const foresee = (): Promise<void> => send(true, setForeseen);
  useEffect(() => {
    if (fields.length === 0) void foresee();
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
        {action.label}: {labelOf(kind, name)}
      </h2>
      {done === undefined &&
        fields.map((field) => (
          <Asked
            key={field.name}
            field={field}
            value={values[field.name] ?? ""}
            failure={field === wrong ? failure?.message : undefined}
            onInput={(value) => {
              setValues({ ...values, [field.name]: value });
              setForeseen(undefined);
            }}
          />
        ))}
      <div aria-live="polite">
        {foreseen && !done && <Lines title="What will happen" answer={foreseen} />}
        {done && <Lines title={titleOf(done)} answer={done} />}
        {failure !== undefined && wrong === undefined && (
          <p class="trouble" role="alert">
            <Told text={failure.message} />
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

function initialOf(fields: readonly Field[]): Readonly<Record<string, string>> {
  return Object.fromEntries(fields.map(({ name, choices = [] }) => [name, choices[0]?.[0] ?? ""]));
}

interface AskedProps {
  readonly field: Field;
  readonly value: string;
  readonly failure: string | undefined;
  readonly onInput: (value: string) => void;
}

function Asked({ field: { name, label, hint, note, choices }, value, failure, onInput }: AskedProps) {
  const id = `field-${name}`;
  const told = failure !== undefined || note !== undefined;
  const describing = { ...(told && { "aria-describedby": `${id}-note` }), ...(failure && { "aria-invalid": true }) };
  return (
    <label htmlFor={id}>
      {label}
      {choices === undefined ? (
        <input
          id={id}
          value={value}
          maxLength={MAX_LENGTH}
          {...(hint && { placeholder: hint })}
          {...describing}
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
        />
      ) : (
        <select id={id} value={value} {...describing} onInput={({ currentTarget }) => onInput(currentTarget.value)}>
          {choices.map(([choice, text]) => (
            <option key={choice} value={choice}>
              {text}
            </option>
          ))}
        </select>
      )}
      {told && (
        <span id={`${id}-note`} class={failure ? "trouble" : "none"} {...(failure && { role: "alert" as const })}>
          {failure ?? note}
        </span>
      )}
    </label>
  );
}

function titleOf({ taskId, againAfterMs }: ActionAnswer): string {
  if (againAfterMs !== undefined) return "Noted, and not done yet";
  return taskId === undefined ? "Done" : "Started";
}

function Lines({ title, answer: { lines, command, taskId } }: { title: string; answer: ActionAnswer }) {
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
      {taskId !== undefined && <TaskState name={String(taskId)} />}
      <p class="soft">
        The same: <code>{command}</code>
      </p>
    </>
  );
}

/** Shows the present state of the action's task. */
function TaskState({ name }: { name: string }) {
  const row = useStore().tables.task.get(name);
  return (
    <p>
      task <Thing kind="task" name={name} /> {row && <State state={row.state} />}{" "}
      {row?.trouble !== undefined && <Told text={row.trouble} />}
    </p>
  );
}
