import type {
  DynamicDisk,
  DynamicDiskServiceDefinition,
  GetDynamicDiskCapacityResponse,
  Task,
} from "@diskmesh/api/director";
import { ExportKind, type OnHostSilence, type Trouble } from "@diskmesh/api/registry";
import { NotFoundError, UnavailableError } from "@diskmesh/domain";
import { type Client, errorOfMessage } from "@diskmesh/rpc";
import { Slots } from "@diskmesh/service";
import { csiError } from "../calls/errors.js";
import type { Limits } from "../model/limits.js";
import { NO_NODE, type Node } from "../model/node-id.js";
import type { Place } from "../model/topology.js";
import type { Owner } from "./volume-id.js";

type Disks = Client<typeof DynamicDiskServiceDefinition>;

/** Together below the director's limit of concurrent calls of one client, beyond which it refuses calls. */
const MAX_CALLS = 200;
const MAX_TROUBLE_CALLS = 20;

interface Wanted extends Place {
  readonly volumeId: string;
  /** A disk type, or a pool of the disks for hosts. */
  readonly kind: string;
  readonly sizeBytes: number;
  readonly onHostSilence: OnHostSilence;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The disks of one orchestrator in the director. Methods that change a disk resolve when the director's task has succeeded. */
export class DirectorDisks {
  readonly #slots = new Slots(MAX_CALLS);
  /** Own slots, because the question why calls are stuck must not wait for them. */
  readonly #troubleSlots = new Slots(MAX_TROUBLE_CALLS);

  constructor(
    private readonly client: Omit<Disks, "close">,
    readonly owner: Owner,
  ) {}

  async get(diskName: string): Promise<DynamicDisk | undefined> {
    try {
      return (await this.#call(() => this.client.getDynamicDisk({ diskName }))).disk;
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  /** Returns the disk's trouble if there is any. Throws NotFoundError for an unknown disk. */
  async trouble(diskName: string): Promise<Trouble | undefined> {
    const request = { diskName, withTrouble: true };
    return (await this.#call(() => this.client.getDynamicDisk(request), this.#troubleSlots)).trouble;
  }

  async create({ volumeId, kind, az, instanceId, hostId, ...wanted }: Wanted): Promise<DynamicDisk> {
    const { owner } = this;
    const place =
      "deployment" in owner
        ? { deployment: owner.deployment, az, instanceId, diskPoolName: kind }
        : { ...(hostId === "" ? { az } : { hostId }), pool: kind, exportKind: ExportKind.DEVICE };
    return this.#changed(() => this.client.createDynamicDisk({ ...wanted, ...place, diskName: volumeId, wait: true }));
  }

  async attach(diskName: string, node: Node, readOnly: boolean): Promise<DynamicDisk> {
    return this.#changed(() => this.client.attachDynamicDisk({ diskName, ...node, readOnly, wait: true }));
  }

  async resize(diskName: string, sizeBytes: number): Promise<DynamicDisk> {
    return this.#changed(() => this.client.resizeDynamicDisk({ diskName, sizeBytes, wait: true }));
  }

  async setLimits(diskName: string, limits: Limits): Promise<DynamicDisk> {
    return this.#changed(() => this.client.setDynamicDiskLimits({ diskName, limits, wait: true }));
  }

  async capacity(az: string, kind: string): Promise<GetDynamicDiskCapacityResponse> {
    const of = "deployment" in this.owner ? { diskPoolName: kind } : { pool: kind };
    return this.#call(() => this.client.getDynamicDiskCapacity({ az, ...of }));
  }

  /** Detaches the disk unless another attachment replaced this one. */
  async detach(diskName: string, attachmentId: string): Promise<void> {
    await this.#ended(() => this.client.detachDynamicDisk({ diskName, attachmentId, wait: true }));
  }

  async delete(diskName: string): Promise<void> {
    await this.#ended(() => this.client.deleteDynamicDisk({ diskName, wait: true }));
  }

  /**
   * Returns one page of the deployment's disks, ordered by name; with a node, of the disks that it has. Without a
   * deployment the page has the disks of others, too.
   */
  async page(
    pageSize: number,
    pageToken: string,
    node: Node = NO_NODE,
  ): Promise<{ disks: DynamicDisk[]; nextPageToken: string }> {
    const { owner } = this;
    const deployment = "deployment" in owner ? owner.deployment : "";
    return this.#call(() => this.client.listDynamicDisks({ deployment, ...node, pageSize, pageToken }));
  }

  async #changed(
    start: () => Promise<{ task: Task | undefined; disk: DynamicDisk | undefined }>,
  ): Promise<DynamicDisk> {
    const { disk } = await this.#ended(start);
    if (disk !== undefined) return disk;
    throw new UnavailableError("the disk was deleted when its task had ended: repeat the request");
  }

  async #ended<Answer extends { task: Task | undefined }>(start: () => Promise<Answer>): Promise<Answer> {
    const answer = await this.#call(start);
    const { taskId = 0, state, error } = answer.task ?? {};
    if (state === "TASK_STATE_DONE") return answer;
    if (error !== undefined)
      throw csiError(errorOfMessage(error, { method: `task ${taskId}`, address: "the director" }));
    throw new UnavailableError(`task ${taskId} of the director is ${state}: repeat the request to wait for its end`, {
      outcome: "unknown",
    });
  }

  async #call<Answer>(call: () => Promise<Answer>, slots = this.#slots): Promise<Answer> {
    try {
      return await slots.run(call);
    } catch (error) {
      throw csiError(error);
    }
  }
}
