import { eventually, freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene } from "../testing/agent-scene.js";

describe("metrics of an agent's devices", () => {
  const scene = AgentScene.forEachTest();

  it("name each device, and say whether the cache can be written", async () => {
    const port = await freePort();
    await scene.start({ metrics: { listen: { host: "127.0.0.1", port } } });
    await eventually(async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      for (const id of ["dev-a", "dev-b"]) {
        expect(text).to.match(
          new RegExp(`^diskmesh_device_operations_in_flight\\{[^}]*device_id="${id}"[^}]*\\} \\d`, "m"),
        );
        expect(text).to.match(new RegExp(`^diskmesh_device_operations_oldest_seconds\\{[^}]*device_id="${id}"`, "m"));
      }
      expect(text).to.match(/^diskmesh_agent_cache_failing(?:\{[^}]*\})? 0/m);
    });
  });
});
