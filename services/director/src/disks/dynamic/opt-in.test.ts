import { InvalidStateError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { expect } from "chai";
import { TestDirector } from "../../testing/test-director.js";

describe("dynamic disks of a director whose config does not name them", () => {
  let director: TestDirector;

  before(async () => {
    director = await TestDirector.start({ dynamicDisks: undefined });
  });
  after(() => director?.stop());

  it("are off, and deployments work without; the config key that the refusal names switches them on", async () => {
    const [instance = ""] = await director.deploy("web", 1);
    const said = "dynamic disks are off: set dynamicDisks.enabled to true in the director's config and restart it";
    await rejection(director.provide("data", instance), InvalidStateError, said);
    await director.process.restart({ ...director.config, dynamicDisks: { enabled: true } });
    expect((await director.provide("data", instance)).state).to.equal("TASK_STATE_DONE");
  });
});
