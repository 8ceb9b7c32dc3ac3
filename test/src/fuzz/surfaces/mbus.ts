import { connectNats, type NatsConnection } from "@diskmesh/mbus";
import type { TlsFiles } from "@diskmesh/rpc";
import type { Random } from "../../random.js";
import { jsonText, randomBytes, spoilJson, strangeJson, strangeText } from "../strange.js";
import { Counts, type Surface } from "../surface.js";
import { VICTIM_HOST } from "../vocabulary.js";

/**
 * A message that a certificate may publish. `replies` is a placeholder for the subject on which the director listens.
 */
interface MbusInput {
  readonly as: "director" | "agent";
  readonly subject: string;
  readonly data: string;
}

export interface MbusSurfaceOptions {
  readonly address: string;
  readonly director: TlsFiles;
  /** Certificate of the victim's agent. */
  readonly agent: TlsFiles;
}

const METHODS = [
  "ping",
  "get_task",
  "cancel_task",
  "info",
  "get_state",
  "list_disk",
  "add_dynamic_disk",
  "remove_dynamic_disk",
  "add_persistent_disk",
  "mount_disk",
  "unmount_disk",
  "remove_persistent_disk",
  "apply",
  "stop",
  "toString",
];
const DIRECTOR_ID = "{director}";
const PATIENCE_MS = 2_000;
const MESSAGES_BEFORE_A_LOOK = 32;

/** Requests to an agent like those of a director, and messages of an agent to a director, with arbitrary contents. */
export class MbusSurface implements Surface {
  readonly name = "mbus";
  readonly atOnce = 1;
  readonly counts = new Counts();
  #sent = 0;
  #heard: (() => void) | undefined;
  /** Name of the director in its requests. */
  #directorId = "unknown";

  private constructor(
    private readonly director: NatsConnection,
    private readonly agent: NatsConnection,
  ) {
    director.subscribe("director.>", ({ subject }) => {
      if (subject === LOOK) return this.#heard?.();
      const [, directorId, agentId] = subject.split(".");
      if (agentId !== VICTIM_HOST && directorId !== undefined) this.#directorId = directorId;
    });
  }

  static async connect({ address, director, agent }: MbusSurfaceOptions): Promise<MbusSurface> {
    const both = await Promise.all([
      connectNats({ servers: [address], tls: director, name: "fuzz as director" }),
      connectNats({ servers: [address], tls: agent, name: "fuzz as agent" }),
    ]);
    await Promise.all(both.map((one) => one.whenConnected(AbortSignal.timeout(30_000))));
    return new MbusSurface(...both);
  }

  next(random: Random): Buffer {
    const input: MbusInput = random.chance(0.7) ? request(random) : word(random);
    return Buffer.from(JSON.stringify(input));
  }

  async send(input: Buffer): Promise<void> {
    const { as, subject, data } = JSON.parse(input.toString()) as MbusInput;
    const bytes = Buffer.from(data, "base64");
    try {
      this[as].publish(subject.replace(DIRECTOR_ID, this.#directorId), bytes);
      this.counts.add(`as ${as}`);
    } catch {
      this.counts.add("refused by our own client");
    }
    // Waits until the agent has read what was sent, because NATS drops messages for a slow reader.
    if (++this.#sent % MESSAGES_BEFORE_A_LOOK === 0) await this.#look();
  }

  async close(): Promise<void> {
    await Promise.all([this.director.close(), this.agent.close()]);
  }

  async #look(): Promise<void> {
    const asked = Buffer.from(JSON.stringify({ protocol: 3, method: "ping", arguments: [], reply_to: LOOK }));
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, PATIENCE_MS);
      this.#heard = () => {
        clearTimeout(timer);
        resolve();
      };
      try {
        this.director.publish(`agent.${VICTIM_HOST}`, asked);
      } catch {
        // NATS is away, so no answer arrives.
      }
    });
  }
}

const LOOK = `director.fuzz-look.${VICTIM_HOST}.1`;

function request(random: Random): MbusInput {
  const replyTo = random.chance(0.9) ? `director.fuzz.${VICTIM_HOST}.${random.below(100)}` : strangeText(random);
  const args = Array.from({ length: random.below(4) }, () => argument(random));
  let envelope: unknown = { protocol: 3, method: random.pick(METHODS), arguments: args, reply_to: replyTo };
  if (random.chance(0.1)) envelope = { ...(envelope as object), traceparent: strangeText(random) };
  if (random.chance(0.4)) envelope = spoilJson(random, envelope);
  return { as: "director", subject: `agent.${VICTIM_HOST}`, data: body(random, envelope) };
}

function argument(random: Random): unknown {
  if (random.chance(0.3))
    return random.pick(["fuzz-1", "1", { path: "/dev/null" }, { export_path: "/x", lun: 0 }, "full"]);
  return random.chance(0.5) ? strangeText(random) : strangeJson(random);
}

function word(random: Random): MbusInput {
  const subject = random.pick([
    `director.${DIRECTOR_ID}.${VICTIM_HOST}.${random.below(1_000)}`,
    `director.${DIRECTOR_ID}.${VICTIM_HOST}.x`,
    `hm.agent.heartbeat.${VICTIM_HOST}`,
    `hm.agent.alert.${VICTIM_HOST}`,
    `hm.agent.shutdown.${VICTIM_HOST}`,
  ]);
  const reply = random.pick<unknown>([
    { value: "pong" },
    { value: { agent_task_id: "1", state: "running" } },
    { exception: { message: "no" } },
    { job_state: "running", vitals: {} },
  ]);
  return { as: "agent", subject, data: body(random, random.chance(0.7) ? spoilJson(random, reply) : reply) };
}

function body(random: Random, value: unknown): string {
  const bytes = random.chance(0.9) ? jsonText(random, value) : randomBytes(random, random.pick([0, 1, 100, 100_000]));
  return bytes.toString("base64");
}
