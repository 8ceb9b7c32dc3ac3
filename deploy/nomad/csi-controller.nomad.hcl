# The controller of the CSI driver. docs/guides/nomad.md says what it needs.
job "csi-diskmesh-controller" {
  type = "service"

  group "controller" {
    count = 2

    task "csi-driver" {
      driver = "docker"

      csi_plugin {
        id        = "diskmesh"
        type      = "controller"
        mount_dir = "/csi"
      }

      config {
        image   = "diskmesh:0.2.0"
        command = "diskmesh-csi-driver"
        args    = ["--controller", "--config", "/local/csi-driver.yaml"]
        volumes = ["/etc/diskmesh/csi:/etc/diskmesh:ro"]
      }

      # The socket belongs to Nomad, which is root.
      user = "root"

      template {
        destination = "local/csi-driver.yaml"
        data        = <<-END
          maxVolumesPerNode: 64
          controller:
            director: { address: ["director-1.example.com:7010", "director-2.example.com:7010"] }
            tls: { caFile: /etc/diskmesh/ca.pem, certFile: /etc/diskmesh/csi.pem, keyFile: /etc/diskmesh/csi-key.pem }
            cluster: nomad
            azs: [z1, z2]
        END
      }

      resources {
        cpu    = 100
        memory = 256
      }
    }
  }
}
