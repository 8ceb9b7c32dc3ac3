import type { DynamicDisk, DynamicDiskServiceDefinition, GetCapacityResponse, Task } from "@diskmesh/api/director";
import type { OnHostSilence, Trouble } from "@diskmesh/api/registry";
import { NotFoundError, UnavailableError } from "@diskmesh/domain";
import { type Client, errorOfMessage } from "@diskmesh/rpc";
import { Slots } from "@diskmesh/service";
import { csiError } from "../calls/errors.js";
import type { Limits } from "../model/limits.js";

type Disks = Client<typeof DynamicDiskServiceDefinition>;

/** Together below the director's limit of concurrent calls of one client, beyond which it refuses calls. */
const MAX_CALLS = 200;
const MAX_TROUBLE_CALLS = 20;

interface Wanted {
  readonly volumeId: string;
  readonly az: string;
  readonly diskType: string;
  readonly sizeBytes: number;
  readonly onHostSilence: OnHostSilence;
  readonly metadata: Readonly<Record<string, string>>;
}

/** The disks of one deployment in the director. Methods that change a disk resolve when the director's task has succeeded. */
export class DirectorDisks {
  readonly #slots = new Slots(MAX_CALLS);
  /** Own slots, because the question why calls are stuck must not wait for them. */
  readonly #troubleSlots = new Slots(MAX_TROUBLE_CALLS);

  constructor(
    private readonly client: Omit<Disks, "close">,
    readonly deployment: string,
  ) {}

  async get(diskName: string): Promise<DynamicDisk | undefined> {
    try {
      return (await this.#call(() => this.client.getDisk({ diskName }))).disk;
    } catch (error) {
      if (error instanceof NotFoundError) return undefined;
      throw error;
    }
  }

  /** Returns the disk's trouble if there is any. Throws NotFoundError for an unknown disk. */
  async trouble(diskName: string): Promise<Trouble | undefined> {
    const request = { diskName, withTrouble: true };
    return (await this.#call(() => this.client.getDisk(request), this.#troubleSlots)).trouble;
  }

  async create({ volumeId, diskType, ...wanted }: Wanted): Promise<DynamicDisk> {
    const request = { ...wanted, diskName: volumeId, diskPoolName: diskType, deployment: this.deployment, wait: true };
    return this.#changed(() => this.client.createDisk(request));
  }

  async attach(diskName: string, instanceId: string, readOnly: boolean): Promise<DynamicDisk> {
    return this.#changed(() => this.client.attachDisk({ diskName, instanceId, readOnly, wait: true }));
  }

  async resize(diskName: string, sizeBytes: number): Promise<DynamicDisk> {
    return this.#changed(() => this.client.resizeDisk({ diskName, sizeBytes, wait: true }));
  }

  async setLimits(diskName: string, limits: Limits): Promise<DynamicDisk> {
    return this.#changed(() => this.client.setDiskLimits({ diskName, limits, wait: true }));
  }

  async capacity(az: string, diskType: string): Promise<GetCapacityResponse> {
    return this.#call(() => this.client.getCapacity({ az, diskPoolName: diskType }));
  }

  /** Detaches the disk unless another attachment replaced this one. */
  async detach(diskName: string, attachmentId: string): Promise<void> {
    await this.#ended(() => this.client.detachDisk({ diskName, attachmentId, wait: true }));
  }

  async delete(diskName: string): Promise<void> {
    await this.#ended(() => this.client.deleteDisk({ diskName, wait: true }));
  }

  /** Returns one page of the deployment's disks, ordered by name; with an instance, of the disks that it has. */
  async page(
    pageSize: number,
    pageToken: string,
    instanceId = "",
  ): Promise<{ disks: DynamicDisk[]; nextPageToken: string }> {
    const { deployment } = this;
    return this.#call(() => this.client.listDisks({ deployment, instanceId, pageSize, pageToken }));
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
