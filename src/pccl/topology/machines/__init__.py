"""Real machines by name, from one box to many; several boxes have the shape ``(boxes, NPUs per box)``.

::

    building   boxes, switches and kinds of links, each with figures that can be replaced
    nvidia     DGX-1 to HGX B200, racks of GB200 and GB300, DGX Spark
    amd        MI250, MI300X and MI355X
    clouds     p4d, p5, p5e and Trainium2 of Amazon, NDv4 and NDv5 of Azure
    google     TPUs, by shape or by the name of a slice

Every figure stands in a signature, so that it can be replaced, and its source beside it. The same thing has the same
name on all machines:

========== ===============================================================================================
nvlink     NVLink inside a box: one link where NPUs are joined directly, all links of an NPU to an NVSwitch
xgmi       one xGMI link between two NPUs of AMD
ici        a link between two TPUs
neuronlink a link between two Trainium2 of an instance; ring is one between instances of an UltraServer
pcie       from an NPU to a NIC that it shares
nic        from a NIC to the switch of the network, or back
========== ===============================================================================================

``nic`` is a bandwidth, ``nic_latency`` and ``nic_gap`` are times, and so for the others. Where no source gives a gap,
there is none. Switches are plain unless asked: ``nvls`` lets NVSwitches multiply and add, ``sharp`` those of
InfiniBand. A NIC never does either.
"""
