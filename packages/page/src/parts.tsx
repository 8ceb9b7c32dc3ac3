import { useEffect, useMemo, useState } from "preact/hooks";
import { IO_SCALE, ioLines, perSecond, useChart } from "./activity.js";
import { DeviceList, FactList, stateOf } from "./devices.js";
import { type Asked, useAnswer } from "./hooks.js";
import { State, Thing, Told } from "./lists.js";
import type { DeviceItem, PartItem, PartsAnswer } from "./rows.js";
import { countText, leftText, sizeText, stateText } from "./text.js";

interface DiskPanelProps {
  readonly name: string;
  readonly mark: string;
}

/** Shows a disk's path, I/O and parts. */
export function DiskPanel({ name, mark }: DiskPanelProps) {
  const asked = useAnswer<PartsAnswer>(`/page/parts?${new URLSearchParams({ disk: name })}`, mark);
  return (
    <>
      {asked.answer && <DiskIo answer={asked.answer} />}
      <PartsOfDisk {...asked} />
    </>
  );
}

interface IoSample {
  readonly atMs: number;
  readonly readBytes: number;
  readonly writtenBytes: number;
}

const IO_SPAN_MS = 600_000;
/** Time over which rates are averaged, because the counters change with heartbeats. */
const RATE_MS = 30_000;

/** Shows the I/O of a disk, and its rates since its panel was opened. */
function DiskIo({ answer }: { readonly answer: PartsAnswer }) {
  const { io, path, limitsPending } = answer;
  const [samples, setSamples] = useState<readonly IoSample[]>([]);
  const Chart = useChart();
  useEffect(() => {
    if (io === undefined) return setSamples([]);
    const now = { atMs: Date.now(), readBytes: io.readBytes, writtenBytes: io.writtenBytes };
    setSamples((before) => [...before, now].filter(({ atMs }) => atMs > now.atMs - IO_SPAN_MS));
  }, [answer]);
  const timesMs = useMemo(() => samples.map(({ atMs }) => atMs), [samples]);
  const rates = (count: "readBytes" | "writtenBytes"): readonly (number | null)[] =>
    samples.map((sample) => {
      const before = samples.find(({ atMs }) => atMs >= sample.atMs - RATE_MS) ?? sample;
      const seconds = (sample.atMs - before.atMs) / 1_000;
      return seconds < 1 ? null : Math.max(0, sample[count] - before[count]) / seconds;
    });
  const [read, written] = [rates("readBytes"), rates("writtenBytes")];
  const waits = io?.waitsFor ? `, which waits for ${io.waitsFor}` : "";
  const now = (rate: number | null | undefined): string => (typeof rate === "number" ? `, ${perSecond(rate)} now` : "");
  const facts: readonly (readonly [string, string])[] =
    io === undefined
      ? [["I/O", path ? "not known before its host's next heartbeat" : "none: it is not published"]]
      : [
          [
            "read",
            io.isUncounted ? "" : `${sizeText(io.readBytes)} in ${countText(io.reads, "read")}${now(read.at(-1))}`,
          ],
          [
            "written",
            io.isUncounted
              ? "not counted: its agent has served too many disks since its start"
              : `${sizeText(io.writtenBytes)} in ${countText(io.writes, "write")}${now(written.at(-1))}`,
          ],
          ["errors", io.errors === 0 ? "none" : io.errors.toLocaleString("en")],
          [
            "open",
            io.openRequests === 0
              ? "no request"
              : `${countText(io.openRequests, "request")}, the oldest for ${leftText(io.oldestMs)}${waits}`,
          ],
          [
            "throttled",
            io.throttledRequests === 0 ? "" : `${countText(io.throttledRequests, "request")} by the limits`,
          ],
        ];
  return (
    <section aria-labelledby="disk-io-title" id="io">
      <h3 id="disk-io-title">I/O</h3>
      <FactList facts={[["path", path], ["limits", limitsPending ? "not in force on its host yet" : ""], ...facts]} />
      {Chart && io && !io.isUncounted && samples.length > 1 && (
        <Chart
          label="I/O of this disk since its panel was opened"
          timesMs={timesMs}
          spanMs={IO_SPAN_MS}
          {...IO_SCALE}
          lines={ioLines(read, written)}
        />
      )}
    </section>
  );
}

/** Shows on which devices and hosts the bytes of a disk lie, in the order of the bytes, and the progress of its moves. */
function PartsOfDisk({ answer, failure }: Asked<PartsAnswer>) {
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
