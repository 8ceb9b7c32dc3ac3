import { readFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import { join } from "node:path";
import { servedElsewhere, silentLogger } from "@diskmesh/domain";
import { hashPassword } from "@diskmesh/pki/password-hash";
import { Readiness } from "@diskmesh/service";
import { freePort, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { directorConfig } from "../config/config.js";
import { DIRECTOR_LIMITS } from "../config/limits.js";
import { HttpServer } from "../http/http-server.js";
import { allRoutes } from "../http/routes/routes.js";
import { HttpClient } from "./http-client.js";
import { changed, type Tuning } from "./tuning.js";

/** Another loopback address, so that both directors listen at the same port, as on two machines. */
const LEADER_HOST = "127.0.0.2";

interface KeyPair {
  readonly certFile: string;
  readonly keyFile: string;
}

/** The HTTPS API of a standby director, and a fake leader whose responses the test defines. */
export class StandbyApi {
  /** The address that the standby takes for the leader's. */
  leaderAddress = `${LEADER_HOST}:7010`;
  /** Number of the next leader lookups that find no leader. */
  missed = 0;
  #leader: Server | undefined;

  private constructor(
    readonly certs: TestCertificates,
    readonly port: number,
    private server: HttpServer | undefined = undefined,
  ) {}

  /** Starts the standby with the login "admin:p", unless `http` defines others. */
  static async start(
    http: object = {},
    place: { readonly port?: number; readonly certs?: TestCertificates; readonly tuning?: Tuning } = {},
  ): Promise<StandbyApi> {
    const certs = place.certs ?? (await testCertificates({ hostIds: ["host-1"] }));
    const port = place.port ?? (await freePort());
    const api = new StandbyApi(certs, port);
    const config = directorConfig.parse({
      listen: { host: "127.0.0.1", port: 0 },
      tls: certs.files("director"),
      tablet: { storage: join(temporaryFolder(), "state") },
      dispatcher: { address: "127.0.0.1:1" },
      nats: { servers: ["127.0.0.1:2"] },
      http: {
        listen: { port },
        users: [{ name: "admin", passwordHash: await hashPassword("p") }],
        ...http,
      },
    });
    if (config.http === undefined) throw new TypeError("no http");
    const current = (): never => {
      if (api.missed-- > 0) throw servedElsewhere("this director stands by");
      throw servedElsewhere("this director stands by", api.leaderAddress);
    };
    const readiness = new Readiness({ needs: ["leader"], log: silentLogger });
    readiness.standsBy("10.0.0.1:7010");
    readiness.missing("leader", "it stands by");
    const report = () => readiness.report();
    const limits = changed(DIRECTOR_LIMITS, { http: { leaderWaitMs: 1_000, ...place.tuning?.http } });
    api.server = new HttpServer({ config, limits, current, report, routes: allRoutes, log: silentLogger }, config.http);
    await api.server.listen();
    return api;
  }

  client(login = "admin:p", certs: Pick<TestCertificates, "files"> = this.certs): HttpClient {
    return new HttpClient(certs, this.port, login);
  }

  /** Starts a fake leader at the address and port of the leader's HTTPS API. */
  async lead(listener: RequestListener, { certFile, keyFile }: KeyPair = this.certs.files("director")): Promise<void> {
    const leader = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, listener);
    this.#leader = leader;
    await new Promise<void>((resolve, reject) => {
      leader.once("error", reject).listen(this.port, LEADER_HOST, resolve);
    });
  }

  /** Restores the initial state, without a leader. */
  async reset(): Promise<void> {
    const leader = this.#leader;
    this.#leader = undefined;
    this.leaderAddress = `${LEADER_HOST}:7010`;
    leader?.closeAllConnections();
    await new Promise<void>((resolve) => (leader === undefined ? resolve() : leader.close(() => resolve())));
  }

  async stop(): Promise<void> {
    await this.reset();
    await this.server?.close();
  }
}
