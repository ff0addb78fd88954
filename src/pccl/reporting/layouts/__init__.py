"""How to draw each family of networks.

sketch     what they all return, and simple figures
grids      meshes, tori and hypercubes
npus       NPUs joined directly: lines, rings, cube meshes, cliques
switches   stars, trees, groups of routers
boxes      machines of several boxes
spread     anything else
curves     links between devices, and round those in their way
"""
