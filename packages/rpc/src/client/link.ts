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

export interface LinkedCall {
  readonly call?: { cancelWithStatus(code: status, details: string): void };
  cancel(): void;
  getAuthContext(): unknown;
  once(event: "status", listener: (status: StatusObject) => void): unknown;
}

/**
 * A client of grpc-js with the content that the TLS files had at its creation. It reconnects by itself with the same
 * content.
 */
export class Link {
  readonly client: GrpcClient;
  readonly #made: TlsMaterial;
  readonly #calls = new Set<LinkedCall>();
  /** Serial number of the server's last certificate, in hex. */
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
      // grpc-js must not retry. FollowingClient repeats calls that certainly reached no handler; other retries are the
      // caller's decision.
      "grpc.enable_retries": 0,
      "grpc.service_config_disable_resolution": 1,
      // With a pool shared by all clients of a process, the identity check of one client would apply to all.
      "grpc.use_local_subchannel_pool": 1,
      "grpc.enable_http_proxy": 0,
      // Server name in the handshake. It is not checked, but the default may be an IP address, which TLS forbids there.
      "grpc.ssl_target_name_override": options.serverRole,
      ...KEEPALIVE_OPTIONS,
      ...RECONNECT_OPTIONS,
    });
  }

  /** True when new calls may use this link: the files are unchanged, and the server is not known to be revoked. */
  get isCurrent(): boolean {
    const { ca, cert, key } = this.tls.material;
    const made = this.#made;
    return !this.#isRevoked && ca === made.ca && cert === made.cert && key === made.key;
  }

  /** Registers a call until it ends, and returns it. */
  begun<Call extends LinkedCall>(call: Call): Call {
    this.#calls.add(call);
    call.once("status", () => {
      this.#calls.delete(call);
      if (this.#isRetired) this.#closeIfIdle();
    });
    return call;
  }

  /** Closes the connection and fails its calls when the server's certificate has been revoked. */
  endIfRevoked(): void {
    if (this.#isRevoked || !this.tls.isRevoked(this.#serverSerial)) return;
    this.#isRevoked = true;
    const text = this.#revokedText(this.#serverSerial);
    for (const { call } of [...this.#calls]) call?.cancelWithStatus(status.UNAVAILABLE, text);
    this.retire();
  }

  /** Closes the link when its last call has ended. */
  retire(): void {
    this.#isRetired = true;
    this.#closeIfIdle();
  }

  #closeIfIdle(): void {
    if (this.#calls.size === 0) this.client.close();
  }

  #checkServer(certificate: PeerCertificate): Error | undefined {
    const identity = identityOfAlternativeNames(certificate.subjectaltname);
    const { serverRole: role, serverName: name, address } = this.options;
    if (identity?.role !== role || (name !== undefined && identity.name !== name)) {
      const found = identity ? formatIdentity(identity) : "no diskmesh identity";
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
