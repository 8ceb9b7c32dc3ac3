import { eventually, freePort } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentScene, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";

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
      expect(text).to.match(/^diskmesh_agent_registration_age_seconds(?:\{[^}]*\})? \d/m);
    });
  });

  it("count the operations of an erase, its bytes, the fence that begins it, and the cache's writes", async () => {
    const port = await freePort();
    await scene.start({ metrics: { listen: { host: "127.0.0.1", port } } });
    const orders = await scene.orders();
    await orders.attach("dev-a");
    const erase = { stamp: scene.registry.stamp(), deviceId: "dev-a", sessionNumber: 7 };
    const { outcome } = await orders.client.eraseDevice({ bootId: orders.bootId, ...erase });
    expect(outcome?.outcome).to.equal(DONE);
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const values = (name: string, ...labels: string[]) =>
      text
        .split("\n")
        .filter((line) => line.split(/[{ ]/)[0] === name && labels.every((label) => line.includes(label)))
        .map((line) => Number(line.slice(line.lastIndexOf(" "))));
    const write = ['device_id="dev-a"', 'operation="write"'];
    expect(values("diskmesh_device_operations_total", ...write)).to.deep.equal([1]);
    expect(values("diskmesh_device_errors_total", ...write)).to.deep.equal([0]);
    expect(values("diskmesh_device_operation_time_seconds_total", ...write)[0]).to.be.above(0);
    expect(values("diskmesh_erase_io_bytes_total")).to.deep.equal([DEVICE_BYTES]);
    expect(values("diskmesh_erases_total", 'outcome="done"')).to.deep.equal([1]);
    expect(values("diskmesh_erases_running")).to.deep.equal([0]);
    const granted = ['purpose="erase"', 'outcome="granted"'];
    expect(values("diskmesh_session_open_duration_seconds_count", ...granted)).to.deep.equal([1]);
    expect(values("diskmesh_agent_cache_write_duration_seconds_count", 'outcome="done"')[0]).to.be.above(0);
  });
});
