import { useState } from "preact/hooks";
import { useAnswer } from "./hooks.js";
import { Told } from "./lists.js";
import type { JournalAnswer } from "./rows.js";
import { whenText } from "./text.js";

interface JournalProps {
  /** "host", "device" or "disk". */
  readonly kind: string;
  readonly name: string;
  /** Changes with the object's row. */
  readonly mark: string;
}

/** Shows each kept change of an object once it is opened, because the registry reads its journals for it. */
export function Journal(props: JournalProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details id="journal" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Journal of its changes</summary>
      {isOpen && <Changes {...props} />}
    </details>
  );
}

function Changes({ kind, name, mark }: JournalProps) {
  const { answer, failure } = useAnswer<JournalAnswer>(`/page/journal?${new URLSearchParams({ kind, name })}`, mark);
  if (answer === undefined) return <p class="none">{failure ?? "Loading…"}</p>;
  return (
    <>
      {answer.changes.length === 0 && <p class="none">No change is kept.</p>}
      <ol class="timeline">
        {answer.changes.map(({ commit, timeMs, cause, details }) => (
          <li key={commit}>
            {timeMs === undefined ? (
              <span class="soft">commit {commit}</span>
            ) : (
              <time dateTime={new Date(timeMs).toISOString()} title={`commit ${commit}`}>
                {whenText(timeMs)}
              </time>
            )}
            <div>
              <span class="soft">{cause}</span>
              {details.map((detail) => (
                <p key={detail}>
                  <Told text={detail} />
                </p>
              ))}
            </div>
          </li>
        ))}
      </ol>
      <p class="none">{extentText(answer)}</p>
      {answer.hasMore && (
        <p class="soft">
          More of them: <code>{`diskmesh journal ${kind} ${name}`}</code>
        </p>
      )}
    </>
  );
}

/** Says from when on changes are kept. */
function extentText({ areKept, isComplete, hasMore, keptFromMs }: JournalAnswer): string {
  if (!areKept) return "The registry's store is a database, which keeps no changes.";
  if (hasMore) return "Older changes are kept, too.";
  if (isComplete) return "All changes since the registry's store was made are kept.";
  return `Changes before ${keptFromMs === undefined ? "the oldest kept journal" : whenText(keptFromMs)} are not kept any more.`;
}
