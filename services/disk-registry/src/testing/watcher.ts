import type { WatchDevicesResponse, WatchDisksResponse, WatchHostsResponse } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";

type Message = WatchHostsResponse | WatchDevicesResponse | WatchDisksResponse;

/**
 * Records all messages of a watch as text: "begin", "end", "d1 ATTACHED", "h1 ONLINE, suspected", "-d1" for a removal.
 */
export class Watcher {
  readonly seen: string[] = [];
  lastToken = "";
  failure: unknown;
  readonly #stop = new AbortController();
  readonly #running: Promise<void>;

  constructor(open: (options: { readonly signal: AbortSignal }) => AsyncIterable<Message>) {
    this.#running = this.#read(open);
  }

  async #read(open: (options: { readonly signal: AbortSignal }) => AsyncIterable<Message>): Promise<void> {
    try {
      for await (const message of open({ signal: this.#stop.signal })) {
        this.seen.push(text(message));
        if (message.resumeToken !== "") this.lastToken = message.resumeToken;
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) this.failure = error;
    }
  }

  /** Returns the messages since the last call, once there are `count`. */
  async next(count: number): Promise<string[]> {
    await eventually(() => this.seen.length >= count);
    return this.seen.splice(0);
  }

  async end(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }
}

function text({ update }: Message): string {
  switch (update?.$case) {
    case "snapshotBegin":
      return "begin";
    case "snapshotEnd":
      return "end";
    case "device":
      return `${update.value.deviceId} ${update.value.attachState.replace("ATTACH_STATE_", "")}`;
    case "host":
      return `${update.value.hostId} ${update.value.state.replace("HOST_STATE_", "")}${update.value.suspected ? ", suspected" : ""}`;
    case "disk":
      return [
        update.value.diskId,
        update.value.health.replace("HEALTH_", ""),
        ...(update.value.publication ? [update.value.publication.state.replace("PUBLICATION_STATE_", "")] : []),
      ].join(" ");
    case "removedDeviceId":
    case "removedHostId":
    case "removedDiskId":
      return `-${update.value}`;
    default:
      return "nothing";
  }
}
