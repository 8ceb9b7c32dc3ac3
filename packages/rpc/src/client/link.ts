import type { PeerCertificate } from "node:tls";
import { formatIdentity, type Role } from "@diskmesh/domain";
import { type CurrentTls, identityOfAlternativeNames, type TlsMaterial } from "@diskmesh/tls";
import "../call/quiet-grpc.js";
import { ChannelCredentials, Client as GrpcClient, type StatusObject, status } from "@grpc/grpc-js";
import { KEEPALIVE_OPTIONS, RECONNECT_OPTIONS } from "../call/limits.js";

export interface LinkOptions {
  readonly address: string;
  readonly serverRole: Role;
  readonly serverName?: string;
  readonly maxMessageBytes: number;
}

/** A call of grpc-js. */
export interface LinkedCall {
  readonly call?: { cancelWithStatus(code: status, details: string): void };
  cancel(): void;
  getAuthContext(): unknown;
  once(event: "status", listener: (status: StatusObject) => void): unknown;
}

/** A client of grpc-js with what the TLS files said when it was made, which connects again by itself with the same. */
export class Link {
  readonly client: GrpcClient;
  readonly #made: TlsMaterial;
  readonly #calls = new Set<LinkedCall>();
  /** The serial number of the certificate that the server showed last, in hex. */
  #serverSerial = "";
  #isRevoked = false;
  #isRetired = false;

  constructor(
    private readonly options: LinkOptions,
    private readonly tls: CurrentTls,
  ) {
    this.#made = tls.material;
    const { ca, cert, key } = this.#made;
    const credentials = ChannelCredentials.createSsl(ca, key, cert, {
      checkServerIdentity: (_host, certificate) => this.#checkServer(certificate),
    });
    this.client = new GrpcClient(options.address, credentials, {
      "grpc.max_receive_message_length": options.maxMessageBytes,
      "grpc.max_send_message_length": options.maxMessageBytes,
      "grpc.enable_channelz": 0,
      // Only what certainly never reached a handler is sent twice; all else is the caller's decision.
      "grpc.enable_retries": 0,
      "grpc.service_config_disable_resolution": 1,
      // A pool shared by all clients of a process would also share the check of the server's identity.
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_http_proxy": 0,
      // The name asked for in the handshake. It is not what is checked; the default, an IP address, may not be one.
      "grpc.ssl_target_name_override": options.serverRole,
      ...KEEPALIVE_OPTIONS,
      ...RECONNECT_OPTIONS,
    });
  }

  /** Whether new calls may go here: the files say the same, and the server is not known to be revoked. */
  get isCurrent(): boolean {
    const { ca, cert, key } = this.tls.material;
    const made = this.#made;
    return !this.#isRevoked && ca === made.ca && cert === made.cert && key === made.key;
  }

  /** Notes a call until it ends. Returns it. */
  begun<Call extends LinkedCall>(call: Call): Call {
    this.#calls.add(call);
    call.once("status", () => {
      this.#calls.delete(call);
      if (this.#isRetired) this.#closeIfIdle();
    });
    return call;
  }

  /** Ends the connection, and calls that are under way, if its server's certificate is revoked by now. */
  endIfRevoked(): void {
    if (this.#isRevoked || !this.tls.isRevoked(this.#serverSerial)) return;
    this.#isRevoked = true;
    const text = this.#revokedText(this.#serverSerial);
    for (const { call } of [...this.#calls]) call?.cancelWithStatus(status.UNAVAILABLE, text);
    this.retire();
  }

  /** Closes once the calls under way have ended. */
  retire(): void {
    this.#isRetired = true;
    this.#closeIfIdle();
  }

  close(): void {
    this.client.close();
  }

  #closeIfIdle(): void {
    if (this.#calls.size === 0) this.client.close();
  }

  #checkServer(certificate: PeerCertificate): Error | undefined {
    const identity = identityOfAlternativeNames(certificate.subjectaltname);
    const { serverRole: role, serverName: name, address } = this.options;
    if (identity?.role !== role || (name !== undefined && identity.name !== name)) {
      const found = identity ? formatIdentity(identity) : "no identity of diskmesh";
      const wanted = formatIdentity({ role, name: name ?? "" });
      return new Error(`${address} is not ${wanted}: its certificate names ${found}`);
    }
    const { serialNumber } = certificate;
    if (this.tls.isRevoked(serialNumber)) return new Error(this.#revokedText(serialNumber));
    this.#serverSerial = serialNumber;
    return undefined;
  }

  #revokedText(serialNumber: string): string {
    return `the certificate of ${this.options.address} with the serial number ${serialNumber} is revoked`;
  }
}
