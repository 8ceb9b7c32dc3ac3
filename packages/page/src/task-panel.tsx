import { useState } from "preact/hooks";
import { actionsOf } from "./actions.js";
import { type Action, Confirmation } from "./confirmation.js";
import { useAnswer } from "./hooks.js";
import { State, Thing, Told } from "./lists.js";
import type { Retry, TaskPanelAnswer } from "./rows.js";
import type { Store } from "./store.js";
import { countText, leftText, whenText } from "./text.js";

interface TaskPanelProps {
  readonly name: string;
  readonly mark: string;
  readonly store: Store;
}

/** Shows the steps of a task, and the button that opens the form of a failed task's action with the task's values. */
export function TaskPanel({ name, mark, store }: TaskPanelProps) {
  const { answer, failure } = useAnswer<TaskPanelAnswer>(`/page/task?${new URLSearchParams({ id: name })}`, mark);
  const { steps = [], omitted = 0, attempts = 0, retry } = answer ?? {};
  return (
    <>
      {retry && <RetryButton retry={retry} store={store} />}
      <section aria-labelledby="steps-title" id="steps">
        <h3 id="steps-title">Steps</h3>
        {answer === undefined && <p class="none">{failure ?? "Loading…"}</p>}
        {attempts > 1 && <p class="none">{`${attempts} directors have run it.`}</p>}
        {omitted > 0 && <p class="none">{`${countText(omitted, "earlier step")} not shown`}</p>}
        {answer && steps.length === 0 && <p class="none">None yet.</p>}
        <ol class="timeline">
          {steps.map(({ name: step, state, startedMs, endedMs, message }) => (
            <li key={`${startedMs} ${step}`}>
              <time dateTime={new Date(startedMs).toISOString()}>{whenText(startedMs)}</time>
              <div>
                <Told text={step} /> <State state={state} />{" "}
                <span class="soft">{leftText((endedMs ?? Date.now()) - startedMs)}</span>
                {message !== "" && (
                  <p>
                    <Told text={message} />
                  </p>
                )}
              </div>
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}

/** A retry is an ordinary action: its plan is shown, its values can be mended, and its own task does it. */
function RetryButton({ retry: { kind, name, action, values }, store }: { retry: Retry; store: Store }) {
  const [chosen, setChosen] = useState<Action>();
  const again = actionsOf(kind, name, store).find(({ path }) => path.endsWith(`/${action}`));
  if (again === undefined && chosen === undefined)
    return (
      <p class="none">
        It cannot be retried: see the present state of {kind} <Thing kind={kind} name={name} />.
      </p>
    );
  return (
    <div class="actions">
      <button type="button" disabled={again === undefined} onClick={() => setChosen(again)}>
        Retry…
      </button>
      {chosen && (
        <Confirmation kind={kind} name={name} action={chosen} initial={values} onClose={() => setChosen(undefined)} />
      )}
    </div>
  );
}
