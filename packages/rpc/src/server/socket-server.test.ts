import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { HealthDefinition } from "@diskmesh/api/grpc-health";
import { NotFoundError } from "@diskmesh/domain";
import { credentials, makeGenericClientConstructor, type ServiceError, status } from "@grpc/grpc-js";
import { expect } from "chai";
import { SocketServer } from "./socket-server.js";

const PATH = "/grpc.health.v1.Health/Check";

describe("a server on a Unix socket", () => {
  let server: SocketServer;
  let folder: string;
  let socketPath: string;
  let thrown: unknown;
  let failures: { readonly status: string; readonly unexpected: boolean }[];

  beforeEach(async () => {
    thrown = undefined;
    failures = [];
    folder = mkdtempSync(join(tmpdir(), "dm-socket-"));
    socketPath = join(folder, "s.sock");
    server = new SocketServer({
      codeOf: (error) => (error instanceof RangeError ? status.OUT_OF_RANGE : undefined),
      onError: (failure) => failures.push(failure),
    });
    server.addService(HealthDefinition, {
      check: async () => {
        if (thrown !== undefined) throw thrown;
        return {};
      },
    });
    await server.listen(socketPath);
  });
  afterEach(async () => {
    await server.drain();
    rmSync(folder, { recursive: true });
  });

  /** Sends bytes to a method, and resolves to the answer's bytes or the failure. */
  async function call(bytes: Buffer, path = PATH): Promise<Buffer | ServiceError> {
    const Client = makeGenericClientConstructor({}, "Raw");
    const client = new Client(`unix://${socketPath}`, credentials.createInsecure());
    const pass = (value: Buffer): Buffer => value;
    try {
      return await new Promise((resolve) =>
        client.makeUnaryRequest(path, pass, pass, bytes, (error, answer) => resolve(error ?? (answer as Buffer))),
      );
    } finally {
      client.close();
    }
  }

  it("answers with defaults for missing fields, and only its user and group may open it", async () => {
    expect(await call(Buffer.alloc(0))).to.deep.equal(Buffer.alloc(0));
    expect(statSync(socketPath).mode & 0o777).to.equal(0o660);
    expect(failures).to.deep.equal([]);
  });

  it("answers errors without details, and bugs without their text", async () => {
    const expected: [unknown, status, RegExp][] = [
      [new NotFoundError("no volume v"), status.NOT_FOUND, /^no volume v$/],
      [new RangeError("too large"), status.OUT_OF_RANGE, /./],
      [new TypeError("a password"), status.INTERNAL, /^internal error; the server's log has it/],
    ];
    for (const [error, code, text] of expected) {
      thrown = error;
      const failure = (await call(Buffer.alloc(0))) as ServiceError;
      expect(failure.code).to.equal(code);
      expect(failure.details).to.match(text);
      expect(failure.metadata.get("grpc-status-details-bin")).to.deep.equal([]);
    }
    expect(failures.map(({ unexpected }) => unexpected)).to.deep.equal([false, true, true]);
  });

  it("refuses requests that it cannot decode, and methods that it does not offer", async () => {
    expect(((await call(Buffer.from([0xff]))) as ServiceError).code).to.equal(status.INVALID_ARGUMENT);
    const other = (await call(Buffer.alloc(0), "/grpc.health.v1.Health/Watch")) as ServiceError;
    expect(other.code).to.equal(status.UNIMPLEMENTED);
  });
});
