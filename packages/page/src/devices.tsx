import type { ComponentChildren } from "preact";
import { useAnswer } from "./hooks.js";
import { State, Thing } from "./lists.js";
import type { DeviceItem } from "./rows.js";
import { sizeText, stateText } from "./text.js";

const MAX_LISTED = 200;

interface AskedProps {
  readonly name: string;
  readonly mark: string;
}

function useDevices(by: "host" | "device", { name, mark }: AskedProps) {
  return useAnswer<DeviceItem[]>(`/page/devices?${new URLSearchParams({ [by]: name })}`, mark);
}

/** Shows what a device is, where it is, and what is on it. */
export function DeviceFacts(props: AskedProps) {
  const { answer, failure } = useDevices("device", props);
  if (failure !== undefined) return <p class="none">{failure}</p>;
  if (answer === undefined) return <p class="none">Loading…</p>;
  const [device] = answer;
  if (device === undefined) return <p class="none">It is not there (any more).</p>;
  const { offsetBytes, sizeBytes, blockSizeBytes, diskId, dirty } = device;
  const facts: readonly (readonly [string, ComponentChildren])[] = [
    ["state", <State key="state" state={stateText(device.attachState)} />],
    ["health", <State key="health" state={stateText(device.health)} />],
    ["host", <Thing key="host" kind="host" name={device.hostId} />],
    ["path", device.path],
    ["offset", offsetBytes === 0 ? "" : `${offsetBytes.toLocaleString("en")} B`],
    ["size", `${sizeText(sizeBytes)} in blocks of ${sizeText(blockSizeBytes)}`],
    ["serial", device.serialNumber || "none is reported"],
    ["pool", device.pool],
    ["generation", `${device.tabletGeneration}.${device.deviceGeneration}`],
    ["disk", diskId === "" ? "none" : <Thing key="disk" kind="disk" name={diskId} />],
    ["bytes", dirty && diskId === "" ? "those of a former disk: they are erased before its next use" : ""],
  ];
  return <FactList facts={facts} />;
}

/** Shows a name and a value per line. Facts without a value are left out. */
export function FactList({ facts }: { facts: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl>
      {facts
        .filter(([, value]) => value !== "" && value !== undefined)
        .map(([title, value]) => (
          <div key={title}>
            <dt>{title}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function DevicesOfHost(props: AskedProps) {
  const { answer, failure } = useDevices("host", props);
  return (
    <DeviceList id="devices" title="Devices" failure={failure} isLoading={answer === undefined}>
      {answer?.slice(0, MAX_LISTED).map((device) => (
        <li key={device.deviceId}>
          <Thing kind="device" name={device.deviceId} />
          <State state={stateOf(device)} />
          <span class="soft">{sizeText(device.sizeBytes)}</span>
          <span class="soft">{device.pool}</span>
          {device.diskId !== "" && <Thing kind="disk" name={device.diskId} />}
          {device.diskCount > 1 && <span class="soft">{`and ${device.diskCount - 1} more disks`}</span>}
          {device.trouble && <span class="why">{device.trouble.sentence}</span>}
        </li>
      ))}
    </DeviceList>
  );
}

interface DeviceListProps {
  readonly id: string;
  readonly title: string;
  readonly failure: string | undefined;
  readonly isLoading: boolean;
  readonly children: ComponentChildren;
}

export function DeviceList({ id, title, failure, isLoading, children }: DeviceListProps) {
  return (
    <section aria-labelledby={`${id}-title`} id={id}>
      <h3 id={`${id}-title`}>{title}</h3>
      {isLoading && <p class="none">{failure ?? "Loading…"}</p>}
      {Array.isArray(children) && children.length === 0 ? (
        <p class="none">None.</p>
      ) : (
        <ul class="devices">{children}</ul>
      )}
    </section>
  );
}

/** Returns the attach state of a healthy device, and the health of any other. */
export function stateOf({ health, attachState }: DeviceItem): string {
  return stateText(health === "HEALTH_ONLINE" ? attachState : health);
}
