import { HttpMethod } from "@diskmesh/api/director";
import {
  AlreadyExistsError,
  type DomainError,
  DriverError,
  InvalidArgumentError,
  type JsonObject,
  NotFoundError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { LEGACY_DRIVER, MISBEHAVING_DRIVER, SAMPLE_DRIVER } from "@diskmesh/driver/testing";
import { durationOf } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { B, C, grpcCallOf, NODE, ROWS } from "./rows.js";
import { faultOf, nodeTarget, PassthruScene, taskOf, type User } from "./scene.js";

const EVERY_BYTE = Buffer.from(Array.from({ length: 256 }, (_, at) => at));

describe("vendor passthru, a call", () => {
  const scene = PassthruScene.forAllTests({
    hosts: 1,
    directorDrivers: [{ package: SAMPLE_DRIVER }, { package: LEGACY_DRIVER }],
    agentDrivers: [{ package: SAMPLE_DRIVER }, { package: MISBEHAVING_DRIVER }],
    methods: ["echo", "fine"],
  });

  describe("over HTTPS", () => {
    for (const { title, send, contentType, status, json, error, lastError } of ROWS)
      it(title, async () => {
        const answer = await scene.send(...send, contentType === undefined ? {} : { "content-type": contentType });
        expect(answer.status, answer.body).to.equal(status);
        expect(answer.headers["x-openstack-ironic-api-version"]).to.equal("1.115");
        if (json !== undefined) {
          expect(JSON.parse(answer.body)).to.deep.equal(json);
          expect(answer.headers["content-type"]).to.contain("application/json");
        }
        if (error !== undefined) expect(faultOf(answer)).to.deep.equal({ ...error, debuginfo: null });
        if (status !== 202) return;
        expect(answer.body).to.equal("");
        expect(answer.headers).not.to.have.property("content-type");
        await scene.ended(taskOf(answer));
        if (lastError === undefined) return;
        await eventually(async () =>
          expect(await scene.state()).to.include({ last_error: lastError, reservation: null }),
        );
      });

    it("44 a body that is nested too deep or too long is refused", async () => {
      const deep = await scene.send("POST", `${B}/echo`, `${'{"a":'.repeat(40)}1${"}".repeat(40)}`);
      expect(deep.status).to.equal(400);
      expect(JSON.parse(deep.body)).to.include({ faultcode: "Client" });
      expect(deep.body).to.contain("nested too deeply");
      const long = await scene.send("POST", `${B}/echo`, JSON.stringify({ a: "x".repeat(1_100_000) }));
      expect(long.status).to.equal(413);
    });

    it("an unsupported version or answer format gets 406 with the supported versions", async () => {
      const status = async (headers: Record<string, string>): Promise<number> =>
        (await scene.send("GET", `${B}/str`, undefined, headers)).status;
      const VERSION = "x-openstack-ironic-api-version";
      for (const version of ["1.116", "1.0", "2.1", "1", "new"])
        expect(await status({ [VERSION]: version }), version).to.equal(406);
      for (const version of ["1.1", "1.115", "latest"])
        expect(await status({ [VERSION]: version }), version).to.equal(200);
      for (const accept of ["text/html", "application/json;q=0", "text/*, image/png"])
        expect(await status({ accept }), accept).to.equal(406);
      for (const accept of ["*/*", "text/html, application/*;q=0.1", "application/json; charset=utf-8"])
        expect(await status({ accept }), accept).to.equal(200);
      const refused = await scene.send("GET", "/v1/nodes", undefined, { [VERSION]: "1.116" });
      expect(refused.status).to.equal(406);
      expect(refused.headers).to.include({
        "x-openstack-ironic-api-minimum-version": "1.1",
        "x-openstack-ironic-api-maximum-version": "1.115",
      });
      expect((await scene.send("GET", "/v1", undefined, { [VERSION]: "1.116" })).status).to.equal(200);
    });

    it("the listing has the methods by name with schemas, and those of a driver without locks", async () => {
      const ofNode = JSON.parse((await scene.send("GET", `${B}/methods`)).body);
      expect(ofNode.second_method).to.deep.include({
        async: true,
        attach: false,
        description: "takes a bar",
        http_methods: ["POST"],
        require_exclusive_lock: true,
        driver: "sample",
        scope: "call",
      });
      expect(ofNode.login.args_schema.properties.password).to.deep.equal({ type: "string", writeOnly: true });
      expect(ofNode)
        .to.include.keys("sample.shared_name", "misbehaving.shared_name")
        .and.not.have.property("shared_name");
      expect(ofNode.lower.http_methods).to.deep.equal(["GET", "HEAD"]);
      const ofDriver = JSON.parse((await scene.send("GET", `${C}/methods`)).body);
      expect(ofDriver).to.have.property("d_echo");
      expect(ofDriver.d_echo).not.to.have.property("require_exclusive_lock");
    });

    it("bytes are answered as an attachment, also to a client that accepts nothing else", async () => {
      const ofNode = await scene.send("POST", `${B}/bytes`, { size: 256 }, { accept: "application/octet-stream" });
      expect(ofNode.status).to.equal(200);
      expect(ofNode.bytes).to.deep.equal(EVERY_BYTE);
      expect(ofNode.headers).to.include({
        "content-type": "application/octet-stream",
        "content-disposition": "attachment",
        "content-length": "256",
        "x-content-type-options": "nosniff",
      });
      const ofDriver = await scene.send("POST", `${C}/d_bytes`, { size: 1_048_576 });
      expect(ofDriver.bytes).to.deep.equal(Buffer.alloc(1_048_576, 0xff));
      expect((await scene.send("POST", `${B}/bytes`, { size: 0 })).headers["content-length"]).to.equal("0");
      const tooLong = await scene.send("POST", `${C}/d_bytes`, { size: 1_048_577 });
      expect([tooLong.status, faultOf(tooLong).faultstring]).to.deep.equal([
        500,
        "the method answered 1048577 bytes: the limit is 1048576 bytes",
      ]);
      const only = { accept: "application/octet-stream" };
      expect((await scene.send("GET", "/v1/nodes", undefined, only)).status).to.equal(406);
    });

    it("a method with attach is listed so, and its text is answered as an attachment", async () => {
      const listed = JSON.parse((await scene.send("GET", `${B}/methods`)).body);
      expect([listed.report.attach, listed.bytes.attach]).to.deep.equal([true, false]);
      const answer = await scene.send("GET", `${B}/report`);
      expect(answer.headers["content-disposition"]).to.equal("attachment");
      expect(answer.bytes).to.deep.equal(Buffer.from("caf\u00e9\n"));
    });

    it("a method with a content type is answered so, and HEAD follows its GET", async () => {
      const listed = JSON.parse((await scene.send("GET", `${B}/methods`)).body);
      expect(listed.script).to.include({ content_type: "text/plain", attach: false, timeout_ms: 100_000 });
      for (const verb of ["GET", "HEAD"]) {
        const answer = await scene.send(verb, `${B}/script`, { name: "m-1" }, { accept: "text/*" });
        expect([answer.status, answer.body]).to.deep.equal([200, verb === "GET" ? "#!ipxe\necho m-1\n" : ""]);
        expect(answer.headers).to.include({
          "content-type": "text/plain; charset=utf-8",
          "content-length": "16",
          "content-security-policy": "sandbox; default-src 'none'",
        });
      }
      expect((await scene.send("GET", `${B}/script`, { name: "m-1" }, { accept: "image/png" })).status).to.equal(406);
      // HEAD would begin a task, or the method takes no GET.
      for (const method of ["sleep_async", "second_method"])
        expect((await scene.send("HEAD", `${B}/${method}`)).status, method).to.equal(400);
    });

    it("callers may call the methods of their scopes only", async () => {
      const status = async (user: User, verb: string, path: string, body = "{}") =>
        (await scene.http(user).send(verb, path, { body })).status;
      expect(await status("nobody", "GET", `${B}/methods`)).to.equal(403);
      expect(await status("reader", "GET", `${B}/str`)).to.equal(200);
      expect(await status("reader", "POST", `${B}/third_method_sync`, '{"bar":"meow"}')).to.equal(403);
      expect(await status("caller", "POST", `${B}/third_method_sync`, '{"bar":"meow"}')).to.equal(200);
      expect(await status("caller", "POST", `${B}/none`)).to.equal(403);
      const anonymous = await scene.http("admin").send("GET", `${B}/methods`, { login: "" });
      expect([anonymous.status, anonymous.headers["www-authenticate"]]).to.deep.equal([
        401,
        'Basic realm="BOSH Director"',
      ]);
    });
  });

  describe("over gRPC", () => {
    const call = async (method: string, args: JsonObject = {}, more: object = {}) => {
      const { outcome } = await scene.vendors.callMethod({ target: nodeTarget(), method, args, ...more });
      return outcome;
    };

    const ERRORS = new Map<number, new (message: string) => DomainError>([
      [400, InvalidArgumentError],
      [404, NotFoundError],
      [409, AlreadyExistsError],
      [500, DriverError],
    ]);
    for (const row of ROWS.filter(({ isOfHttp }) => !isOfHttp))
      it(row.title, async () => {
        const { status, json, error, lastError } = row;
        const answered = scene.vendors.callMethod({ ...grpcCallOf(row), wait: true });
        if (error !== undefined)
          return void (await rejection(answered, ERRORS.get(status) ?? Error, error.faultstring));
        const { outcome } = await answered;
        if (status === 200) {
          expect(outcome?.$case).to.equal("value");
          if (json !== undefined) expect(outcome?.value ?? null).to.deep.equal(json);
          return;
        }
        expect(outcome?.$case === "task" && outcome.value.endTime).not.to.equal(undefined);
        if (lastError === undefined) return;
        const { lastError: told, holder } = await scene.vendors.getNode({ nodeId: NODE });
        expect([told, holder]).to.deep.equal([lastError ?? "", undefined]);
      });

    it("arguments that HTTPS refuses are refused", async () => {
      let deep: JsonObject = {};
      for (let depth = 0; depth < 25; depth++) deep = { a: deep };
      await rejection(call("echo", deep), InvalidArgumentError, "nested too deeply: the limit is 25");
      await rejection(call("echo", { a: "x".repeat(1_100_000) }), InvalidArgumentError, "limit of 1048576 bytes");
      await rejection(call("echo", { a: Number.NaN }), InvalidArgumentError, "a is NaN");
    });

    it("bytes are answered as data, and a method with attach is listed so", async () => {
      expect(await call("bytes")).to.deep.equal({ $case: "data", value: EVERY_BYTE });
      expect(await call("bytes", { size: 0 })).to.deep.equal({ $case: "data", value: Buffer.alloc(0) });
      expect(await call("report", {}, { httpMethod: HttpMethod.GET })).to.deep.equal({
        $case: "data",
        value: Buffer.from("caf\u00e9\n"),
      });
      const target = { target: { $case: "driver", value: "sample" } } as const;
      expect(await call("d_bytes", { size: 1_048_576 }, { target })).to.deep.equal({
        $case: "data",
        value: Buffer.alloc(1_048_576, 0xff),
      });
      const { methods } = await scene.vendors.listMethods({ target: nodeTarget() });
      expect(methods.filter(({ attach }) => attach).map(({ name }) => name)).to.deep.equal(["report"]);
      const ofDriver = (await scene.vendors.listMethods({ target })).methods;
      expect(ofDriver.map(({ name }) => name)).to.include("d_bytes");
    });

    it("refuses an HTTP method that is unknown", async () => {
      const request = { target: nodeTarget(), method: "echo", httpMethod: HttpMethod.UNRECOGNIZED };
      await rejection(scene.vendors.callMethod(request), InvalidArgumentError, "The method echo does not support HTTP");
    });

    it("a link is refused for a method that no GET answers, for secret arguments, and for more than 7 days", async () => {
      const link = (method: string, args: JsonObject, lifetimeMs = 1_000) =>
        scene.vendors.createMethodLink({ target: nodeTarget(), method, args, lifetime: durationOf(lifetimeMs) });
      await rejection(link("none", {}), InvalidArgumentError, "does not support HTTP GET");
      await rejection(link("nope", {}), InvalidArgumentError, "No handler for method nope");
      await rejection(link("script", {}), InvalidArgumentError, "Parameter 'name' not passed");
      const secret = link("script", { name: "a", password: "hunter2-secret" });
      await rejection(secret, InvalidArgumentError, "password is secret or not declared");
      await rejection(link("script", { name: "a" }, 604_800_001), InvalidArgumentError, "which is 7 days");
      await rejection(link("script", { name: "a".repeat(4_000) }), InvalidArgumentError, "more than 4096 characters");
    });

    it("a link of a node's method is good until it expires, and after another director leads", async () => {
      const link = async (lifetimeMs: number) => {
        const lifetime = durationOf(lifetimeMs);
        const request = { target: nodeTarget(), method: "script", args: { name: "m-2" }, lifetime };
        return (await scene.vendors.createMethodLink(request)).path;
      };
      const get = (path: string) => scene.http("admin").send("GET", path, { login: "" });
      const ended = await link(1);
      await eventually(async () => expect((await get(ended)).status).to.equal(403));
      expect((await get(ended)).body).to.contain("this address was good until");
      const path = await link(3_600_000);
      await scene.restart("director");
      await eventually(async () => {
        const { status, body } = await get(path);
        expect([status, body]).to.deep.equal([200, "#!ipxe\necho m-2\n"]);
      });
    });

    it("a method that two drivers have is refused unless the call names a driver", async () => {
      const target = { target: { $case: "nodeId", value: NODE } } as const;
      const shared = (driver: string) => scene.vendors.callMethod({ target, method: "shared_name", driver });
      await rejection(shared(""), InvalidArgumentError, "Several drivers have a method shared_name");
      const { outcome } = await shared("misbehaving");
      expect(outcome).to.deep.equal({ $case: "value", value: "misbehaving" });
      await rejection(shared("nobody"), InvalidArgumentError, "No handler for method");
      const longer = { target, method: "shared_name.more", driver: "misbehaving" };
      await rejection(scene.vendors.callMethod(longer), InvalidArgumentError, "No handler for method");
    });

    it("the result of a task is its method's answer", async () => {
      const outcome = await call("second_method", { bar: "x" }, { wait: true });
      expect(outcome?.$case === "task" && outcome.value).to.include({ state: "TASK_STATE_DONE", result: '"done"' });
    });

    it("a secret argument is in no event, task or error", async () => {
      await rejection(call("login", { user: "echo", password: "hunter2-secret" }), DriverError);
      await call("login", { user: "me", password: "hunter2-secret" });
      const listed = await eventually(async () => {
        const answer = await scene.send("GET", "/events");
        expect(answer.body).to.contain("sample.login on node host-1").and.to.contain("wrong password");
        return answer.body;
      });
      expect(listed).not.to.contain("hunter2");
      for (const name of ["director", NODE]) expect(scene.mesh.process(name).logs).not.to.contain("hunter2");
    });

    it("the list of drivers has the reason of a failed driver", async () => {
      await rejection(call("exit"), DriverError, "exited with code 3");
      await eventually(async () => {
        const { drivers } = await scene.vendors.listDrivers({ nodeId: NODE });
        const said = drivers.map(({ name, state }) => `${name} ${state}`);
        expect(said).to.deep.equal(["sample DRIVER_STATE_RUNNING", "misbehaving DRIVER_STATE_RUNNING"]);
      });
      expect(await call("fine")).to.deep.equal({ $case: "value", value: "fine" });
    });
  });
});
