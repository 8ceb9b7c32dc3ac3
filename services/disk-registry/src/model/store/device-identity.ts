/** Identity of a device's hardware. An empty serial number or file identity identifies nothing. */
export interface DeviceIdentity {
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
  readonly blockSizeBytes: number;
  readonly serialNumber: string;
  /** File or drive as the agent's operating system identifies it; absent when never reported. */
  readonly fileIdentity?: string | undefined;
}
