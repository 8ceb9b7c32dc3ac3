import { join } from "node:path";
import { InvalidArgumentError, InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { openStorage, Tablet } from "@diskmesh/tablet";
import { leaveToVerify, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { type DirectorTransaction, nextNumber } from "../store/schema.js";
import { storedSchema } from "../store/stored-schema.js";
import { newTask } from "../tasks/task.js";
import { CLOUD_CONFIG, manifest, TestDirector } from "../testing/test-director.js";

const manyKeys = (count: number): string => Array.from({ length: count }, (_, index) => `k${index}: 1\n`).join("");
/**
 * Older versions accepted this config but took a minute to parse its 60,000 unknown keys, at the upload and at each
 * start.
 */
const OLD_CLOUD_CONFIG = `${CLOUD_CONFIG}${manyKeys(60_000)}`;
const OLD_MANIFEST = `${manifest("web", 1)}meta: {a: 1}\n${manyKeys(2_000)}`;

describe("configs and manifests that an older version accepted", () => {
  let director: TestDirector;
  const folder = temporaryFolder();

  /** Writes to the stopped director's store, as an older release would have. */
  async function leave(work: (tx: DirectorTransaction) => void): Promise<void> {
    const storage = openStorage(join(folder, "state"), "director");
    await using tablet = await Tablet.open({ name: "director", schema: storedSchema, storage, address: "" });
    await tablet.transact(work);
  }

  function leaveDeploy(tx: DirectorTransaction): number {
    const taskId = nextNumber(tx, "task");
    const options = { recreate: false, skipDrain: false, canaries: "", maxInFlight: "", dryRun: false };
    const job = { type: "update_deployment", deployment: "web", manifest: OLD_MANIFEST, options } as const;
    const description = "create deployment `web`";
    tx.tasks.put(newTask({ taskId, description, queue: "normal", user: "operator", deployment: "web", job }, 1));
    return taskId;
  }

  before(async () => {
    await leave((tx) => {
      const add = (name: string, content: string): void =>
        tx.configs.put({ configId: nextNumber(tx, "config"), type: "cloud", name, content, createdAtMs: 1 });
      add("default", OLD_CLOUD_CONFIG);
      // No release accepts this content; the director must start despite it.
      add("broken", "azs: [");
      leaveDeploy(tx);
    });
    director = await TestDirector.start({ tablet: { storage: join(folder, "state") } });
  });
  after(() => director?.stop());

  const update = (name: string, content: string): Promise<unknown> =>
    director.configs.updateConfig({ type: "cloud", name, content });

  it("an unreadable config -> the director starts, and its users fail with the reason until it is deleted", async () => {
    expect((await director.ended(1)).result).to.match(/the stored cloud config `broken` cannot be used: .*line 1/);
    await rejection(director.deployments.deploy({ manifest: manifest("web", 1) }), InvalidStateError);
    await director.configs.deleteConfig({ type: "cloud", name: "broken" });
  });

  it("unknown keys, even very many -> the config stays in use", async () => {
    const { task } = await director.deployments.deploy({ manifest: manifest("more", 1), wait: true });
    expect(task?.result).to.equal("/deployments/more");
  });

  it("the same content again -> the same version; as a new config -> refused", async () => {
    const { config } = await director.configs.updateConfig({ type: "cloud", content: OLD_CLOUD_CONFIG });
    expect(config?.configId).to.equal(1);
    await rejection(
      update("other", OLD_CLOUD_CONFIG),
      InvalidArgumentError,
      /cloud config `other` has unknown top-level keys: "k0" in line \d+/,
    );
    await rejection(
      update("other", "azs: []\nmeta: 1\n"),
      Error,
      /cloud config `other` has unknown top-level keys: "meta" in line 2/,
    );
  });

  it("a deploy of such a manifest, interrupted -> resumed; a new deploy -> refused with the key's name", async function () {
    leaveToVerify(this);
    const error = await rejection(director.deployments.deploy({ manifest: OLD_MANIFEST }));
    expect(error.message).to.match(/the manifest has unknown top-level keys: "meta" in line 6/);
    await director.stop();
    let taskId = 0;
    await leave((tx) => {
      taskId = leaveDeploy(tx);
    });
    director = await TestDirector.start({ tablet: { storage: join(folder, "state") } });
    expect((await director.ended(taskId)).result).to.equal("/deployments/web");
    const { instances } = await director.deployments.listInstances({ deployment: "web" });
    expect(instances).to.have.length(1);
  });
});
