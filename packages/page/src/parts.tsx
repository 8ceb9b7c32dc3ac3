import { DeviceList, stateOf } from "./devices.js";
import { useAnswer } from "./hooks.js";
import { State, Thing, Told } from "./lists.js";
import type { DeviceItem, PartItem, PartsAnswer } from "./rows.js";
import { leftText, sizeText, stateText } from "./text.js";

/** Shows on which devices and hosts the bytes of a disk lie, in the order of the bytes, and the progress of its moves. */
export function PartsOfDisk({ name, mark }: { readonly name: string; readonly mark: string }) {
  const { answer, failure } = useAnswer<PartsAnswer>(`/page/parts?${new URLSearchParams({ disk: name })}`, mark);
  // A disk moves one part at a time.
  const isCopied = ({ copies }: PartItem): boolean => copies.some(({ state }) => state === "COPY_STATE_COPYING");
  const moving = answer?.parts.find(isCopied) ?? answer?.parts.find(({ move }) => move);
  let endBytes = 0;
  return (
    <DeviceList id="extents" title="Where its bytes lie" failure={failure} isLoading={answer === undefined}>
      {answer?.parts.map((part) => {
        const startBytes = endBytes;
        endBytes += part.sizeBytes;
        const range = `${sizeText(startBytes)} to ${sizeText(endBytes)}`;
        return (
          <li key={startBytes}>
            <span class="soft">{range}</span>
            {part.copies.map((copy) => (
              <Copy key={copy.deviceId} copy={copy} devices={answer.devices} isOnly={part.copies.length === 1} />
            ))}
            {part === moving ? (
              <Move part={part} range={range} />
            ) : (
              part.move && <p class="move soft">its move waits for its turn</p>
            )}
          </li>
        );
      })}
    </DeviceList>
  );
}

interface CopyProps {
  readonly copy: PartItem["copies"][number];
  readonly devices: readonly DeviceItem[];
  readonly isOnly: boolean;
}

function Copy({ copy: { deviceId, hostId, state }, devices, isOnly }: CopyProps) {
  const device = devices.find((each) => each.deviceId === deviceId);
  return (
    <span class="copy">
      <Thing kind="device" name={deviceId} />
      {hostId !== "" && (
        <span class="about">
          on <Thing kind="host" name={hostId} />
        </span>
      )}
      <State state={device ? stateOf(device) : "unknown"} />
      {!isOnly && <State state={stateText(state)} />}
    </span>
  );
}

function Move({ part, range }: { readonly part: PartItem; readonly range: string }) {
  const { copiedBytes = 0, bytesPerSecond = 0, remainingMs = 0, message = "" } = part.move ?? {};
  const rate = bytesPerSecond === 0 ? "" : `, ${sizeText(bytesPerSecond)}/s`;
  const left = remainingMs === 0 ? "" : `, about ${leftText(remainingMs)} left`;
  const text =
    copiedBytes === 0 ? message : `${sizeText(copiedBytes)} of ${sizeText(part.sizeBytes)} copied${rate}${left}`;
  return (
    <p class="move">
      <progress aria-label={`Move of ${range}`} aria-valuetext={text} max={part.sizeBytes} value={copiedBytes} />
      <Told text={text} />
    </p>
  );
}
